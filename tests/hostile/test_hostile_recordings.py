"""Small files that claim to be huge: reading takes bounded memory, and one line states the fault."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest

import offheap as package
from harness.command_line import offheap
from harness.hostile.process import measured
from harness.recordings.live_file_writer import LiveFileWriter, hook, java, native
from harness.warm_command import warm
from offheap.cli.main import main
from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.contract import Section
from offheap.recording import allowance, load
from offheap.recording.capture.live_source import follow
from offheap.recording.capture.snapshots import Snapshots
from offheap.recording.storage import reader
from offheap.recording.storage.parquet_parts import parts
from offheap.recording.storage.parquet_tables import ParquetTables

MIB = 1 << 20
# The interpreter, numpy and DuckDB take some 150 MiB.
MOST = allowance.DEFAULT + 400 * MIB
SECONDS = 60.0
ONE = "SELECT old.* FROM (SELECT * FROM old LIMIT 1) old"


def refused(path: Path, *, most: int = MOST) -> str:
    """The one line in which a command refuses the recording; the command takes little time and memory."""
    its = measured(offheap("summary", str(path)), SECONDS)
    assert (its.status, its.stdout, its.stderr.count("\n")) == (2, "", 1), its.stderr
    assert str(path) in its.stderr
    assert its.peak_bytes < most, f"{its.peak_bytes >> 20} MiB"
    return its.stderr


# ---- live files ------------------------------------------------------------------------------------


def stacked(writer: LiveFileWriter) -> None:
    """2,000 stacks over the same 65,535 frames: 131 million frames in 568 KB."""
    deepest = 65535
    first = writer.stack(*[hook("malloc")] * deepest)
    row = writer.rows[Section.STACKS][first]
    writer.rows[Section.STACKS] += [(number, *row[1:]) for number in range(1, 2001)]


def test_stacks_that_share_their_frames(tmp_path: Path) -> None:
    writer = LiveFileWriter()
    stacked(writer)
    path = writer.write(tmp_path / "a.live")
    assert path.stat().st_size < MIB
    assert "its stacks share their frames" in refused(path, most=400 * MIB)


def sparse(path: Path, section: Section, rows: int, row: np.void, at: int) -> None:
    """Gives a section of a live file `rows` rows at the file's end, all holes but one."""
    dtype = contract.ROWS[section]
    with path.open("r+b") as file:
        header = np.frombuffer(file.read(contract.HEADER_BYTES), contract.HEADER).copy()
        start = -(-os.fstat(file.fileno()).st_size // 4096) * 4096
        its = header["sections"][0, section]
        its["offset"], its["capacity"] = start, rows
        header["file_bytes"] = start + rows * dtype.itemsize
        file.seek(0)
        file.write(header.tobytes())
        file.truncate(int(header["file_bytes"][0]))
        file.seek(start + at * dtype.itemsize)
        file.write(row.tobytes())


def test_sparse_methods(tmp_path: Path) -> None:
    """Two methods, one at each end of a table of 8 GB without content."""
    writer = LiveFileWriter()
    writer.method("LFirst;", "run")
    far = 200_000_000
    stack = writer.stack(hook("malloc"), java(0, 0), java(far, 0))
    writer.block(0x1000, 100, stack)
    path = writer.write(tmp_path / "a.live")
    its = np.zeros(1, contract.METHOD)
    its["state"], its["class_signature"], its["name"] = 2, writer.string("LLast;"), writer.string("end")
    path = writer.write(path)
    sparse(path, Section.METHODS, far + 1, its[0], far)
    began = time.monotonic()
    recording = load(path)
    assert time.monotonic() - began < 20
    names = {frame.name for frame in recording.stack(stack)}
    assert "Last.end" in names
    its_use = measured(offheap("summary", str(path)), SECONDS)
    assert (its_use.status, its_use.peak_bytes < 400 * MIB) == (0, True)


def overlapping_names(writer: LiveFileWriter) -> None:
    """4,000 properties, each half a megabyte of text that shares all but its first byte with the next."""
    text = writer.string("x" * (512 << 10))
    writer.rows[Section.PROPERTIES] = [(text + n, text + n + 1) for n in range(0, 4000, 2)]


def overlapping_lines(writer: LiveFileWriter) -> None:
    """Each of 2,000 methods has all 60,000 lines."""
    lines = tuple((n, n) for n in range(60_000))
    slots = [writer.method(f"LM{n};", "run", lines=lines if n == 0 else ()) for n in range(2000)]
    rows = writer.rows[Section.METHODS]
    for slot in slots:
        rows[slot] = (*rows[slot][:6], 0, 60_000, 0)
    writer.stack(hook("malloc"), *(java(slot, 1) for slot in slots))


@pytest.mark.parametrize(
    ("damage", "words"),
    [(overlapping_names, "its names overlap"), (overlapping_lines, "its methods share their lines")],
)
def test_rows_that_overlap(damage: Callable[[LiveFileWriter], None], words: str, tmp_path: Path) -> None:
    writer = LiveFileWriter()
    damage(writer)
    assert words in refused(writer.write(tmp_path / "a.live"), most=500 * MIB)


def test_sparse_stacks(tmp_path: Path) -> None:
    """Sixteen million stacks without content: their sums alone would take gigabytes."""
    writer = LiveFileWriter()
    writer.block(0x1000, 100, 0)
    path = writer.write(tmp_path / "a.live")
    count = (1 << 24) - 1
    sparse(path, Section.STACKS, count, np.zeros(1, contract.STACK)[0], 1)
    with path.open("r+b") as file:
        header = np.frombuffer(file.read(contract.HEADER_BYTES), contract.HEADER).copy()
        header["sections"][0, Section.STACKS]["used"] = count
        file.seek(0)
        file.write(header.tobytes())
    line = refused(path, most=400 * MIB)
    assert "of memory to be read" in line
    assert "OFFHEAP_READ_MEMORY=10GiB" in line


# ---- recordings ------------------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A small recording of a live file, as the recorder writes it."""
    from offheap.recording.capture.recorder import record

    writer = LiveFileWriter(pid=1 << 22, process_start=1)  # no process has this PID
    stack = writer.stack(hook("malloc"), java(writer.method("Lcom/example/Main;", "run"), 0))
    writer.block(0x1000, 100, stack)
    writer.count(stack, 1, 1, 100)
    live_file = writer.write(tmp_path / "a.live")
    record(live_file, tmp_path / "a.offheap")
    assert load(tmp_path / "a.offheap").stack(stack)
    return tmp_path / "a.offheap"


def replace(recording: Path, table: str, query: str) -> Path:
    """Gives a table the rows of a query over its own rows, called `old`."""
    path = recording / f"{table}.parquet"
    if (recording / table).is_dir():
        (part,) = parts(recording / table)
        path = part.path
    database = duckdb.connect(":memory:")
    database.execute(f"CREATE TABLE old AS SELECT * FROM read_parquet('{path}')")
    database.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    database.close()
    return path


@pytest.mark.parametrize(
    ("table", "query"),
    [
        ("live", "SELECT old.* FROM old, range(20000000)"),
        ("series", f"{ONE}, range(10000000)"),
        ("process", f"{ONE}, range(20000000)"),
        ("threads", f"{ONE}, range(20000000)"),
        (
            "frames",
            "SELECT old.* REPLACE (repeat('x', 100000) AS name) FROM (SELECT * FROM old LIMIT 1) old,"
            " range(60000)",
        ),
        (
            "stacks",
            "SELECT n::UINTEGER AS stack, 1::UTINYINT AS kind, list_resize([0::UINTEGER], 100000, 0)"
            " AS frames FROM range(600) t(n)",
        ),
    ],
)
def test_rows_that_are_all_alike(table: str, query: str, recording: Path) -> None:
    """20 million equal rows take kilobytes of Parquet, and would take gigabytes of memory."""
    path = replace(recording, table, query)
    assert path.stat().st_size < 4 * MIB
    line = refused(recording)
    assert "which a file of its size does not hold" in line or "of memory to be read" in line


def test_numbers_that_would_cost_their_size(recording: Path) -> None:
    replace(recording, "stacks", "SELECT * REPLACE ([60000000::UINTEGER] AS frames) FROM old")
    assert "frame number 60000000" in refused(recording, most=400 * MIB)


def test_functions_inlined_without_end(recording: Path) -> None:
    """A frame of 20,000 inlined functions, in stacks that have it 100,000 times."""
    replace(
        recording,
        "frames",
        "SELECT old.* REPLACE (n::USMALLINT AS position) FROM (SELECT * FROM old LIMIT 1) old,"
        " range(20000) t(n)",
    )
    replace(
        recording, "stacks", "SELECT * REPLACE (list_resize([0::UINTEGER], 100000, 0) AS frames) FROM old"
    )
    assert "inlined functions" in refused(recording, most=500 * MIB)


def test_a_part_that_is_a_fifo(recording: Path) -> None:
    (part,) = parts(recording / "series")
    part.path.unlink()
    os.mkfifo(part.path)
    # `parts` skips empty parts, which a power failure leaves; a FIFO counts as one.
    outcome = warm("summary", str(recording))
    assert outcome.returncode in (0, 2)
    (recording / "meta.json").unlink()
    os.mkfifo(recording / "meta.json")
    assert "is not a regular file" in refused(recording)


def test_a_huge_meta(recording: Path) -> None:
    with (recording / "meta.json").open("r+b") as file:
        file.truncate(10 << 30)
    assert "larger than" in refused(recording, most=400 * MIB)


def test_the_limit_can_be_raised(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace(
        recording,
        "series",
        f"{ONE}, range(200000)",
    )
    monkeypatch.setenv(allowance.VARIABLE, "40MiB")
    with pytest.raises(UserError, match=r"more than 40\.0 MiB; if it is yours, allow more"):
        load(recording)
    monkeypatch.setenv(allowance.VARIABLE, "1GiB")
    assert len(load(recording).series) == 200_000
    monkeypatch.setenv(allowance.VARIABLE, "much")
    with pytest.raises(UserError, match="not a size"):
        load(recording)


@pytest.mark.parametrize(
    ("command", "shares"),
    [
        (["leaks", "FILE"], False),
        (["check", "FILE", "FILE"], False),  # one after the other
        (["diff", "FILE", "FILE"], True),
        (["check", "FILE", "--no-new-leaks", "--baseline", "FILE"], True),
        (["diff", "LIVE", "LIVE"], True),
    ],
    ids=["leaks", "check of two", "diff", "check with a baseline", "diff of live files"],
)
def test_recordings_that_a_command_holds_share_one_allowance(
    command: list[str],
    shares: bool,
    recording: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = recording
    if "LIVE" in command:
        writer = LiveFileWriter(pid=1 << 22, process_start=1)
        module = writer.module("/usr/lib/libz.so.1", b"\1" * 20)
        for offset in range(20_000):  # without a live block
            writer.count(writer.stack(hook("malloc"), native(module, offset)), 1, 0, 100)
        path = writer.write(recording.with_name("b.live"))
    else:
        replace(recording, "series", f"{ONE}, range(200000)")
    with allowance.ceiling(path) as reading:
        load(path)
    assert reading.taken > 10 * MIB
    monkeypatch.setenv(allowance.VARIABLE, f"{reading.taken * 3 // 2 >> 10}KiB")
    words = [str(path) if word in ("FILE", "LIVE") else word for word in command]
    for _ in range(2):  # nothing is left of an earlier command
        status = main(words)
        said = capfd.readouterr().err
        assert status == 2 if shares else status in (0, 1, 3), said
        assert (", as the other recording takes " in said) == shares
    monkeypatch.setenv(allowance.VARIABLE, f"{reading.taken * 5 // 2 >> 10}KiB")
    assert main(words) in (0, 1, 3)


def test_what_follows_a_recording_has_the_ceiling(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(*arguments: object, **options: object) -> None:
        np.empty(1 << 30)  # 8 GiB, which no page backs

    monkeypatch.setattr(reader, "load", take)
    monkeypatch.setattr(Snapshots, "take", take)
    live_file = LiveFileWriter(pid=1 << 22, process_start=1).write(tmp_path / "b.live")
    for path in (recording, live_file):
        with (
            contextlib.closing(follow(path)) as source,
            pytest.raises(UserError, match=rf"^{path} needs more than 1\.0 GiB of memory to be read"),
        ):
            source.update()


def test_an_allocation_that_fails_is_one_line(recording: Path) -> None:
    """The process's limit is the last resort, when the estimate of the memory is too low."""
    code = (
        "import sys, numpy\n"
        "from pathlib import Path\n"
        "from offheap.errors import UserError\n"
        "from offheap.recording.allowance import ceiling\n"
        "try:\n"
        "    with ceiling(Path('a.offheap')):\n"
        "        numpy.ones(1 << 30)\n"
        "except UserError as error:\n"
        "    print(error)\n"
        "print(numpy.empty(3 << 27).nbytes)\n"  # the limit is restored
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert outcome.stdout == (
        "a.offheap needs more than 1.0 GiB of memory to be read; if it is yours, allow more: "
        "OFFHEAP_READ_MEMORY=2GiB\n3221225472\n"
    )


def test_an_honest_recording_is_within_its_allowance(recording: Path) -> None:
    """Reading it takes less than half of the allowance that its size gives."""
    opened = package.open(recording)
    assert opened.info.path == str(recording)
    with contextlib.closing(ParquetTables(recording)) as tables:
        for table in ("process", "series", "frames", "live", "threads", "modules"):
            tables.read(table)
        assert tables.allowance.taken < allowance.BASE / 2
