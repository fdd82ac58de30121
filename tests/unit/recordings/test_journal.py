"""The journal of an unfinished recording: its whole blocks are read, and none of it is trusted."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.command_line import offheap
from harness.hostile.process import measured
from harness.measuring.recorder_memory import most_anonymous
from harness.paths import ROOT
from harness.recordings.stored import fill, live, process, series
from offheap.errors import UserError
from offheap.recording import allowance, load
from offheap.recording.storage.journal import Journal, JournalTables, in_writing
from offheap.recording.storage.layout import APPENDED, JOURNALED, REPLACED
from offheap.recording.storage.writer import writer

HEAD = struct.Struct("<4sIQQ")  # the format that journal.py documents
MIB = 1 << 20
# The interpreter, numpy and DuckDB take some 150 MiB.
MOST = allowance.DEFAULT + 400 * MIB


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose recorder was killed after three snapshots."""
    target = writer(tmp_path_factory.mktemp("journal") / "a.offheap")
    fill(target)
    target.close()
    return target.path


@pytest.fixture
def recording(unfinished: Path, tmp_path: Path) -> Path:
    """A copy for tests that damage it."""
    return Path(shutil.copytree(unfinished, tmp_path / "a.offheap"))


def blocks(recording: Path, table: str) -> Path:
    return recording / "journal" / f"{table}.blocks"


def block(rows: int, data: bytes, *, inflated: int | None = None) -> bytes:
    body = zlib.compress(data)
    return HEAD.pack(b"ohb1", rows, len(data) if inflated is None else inflated, len(body)) + body


def test_every_column_comes_back(tmp_path: Path) -> None:
    recording = tmp_path / "a.offheap"
    recording.mkdir()
    journal = Journal(recording)
    numbers = {
        "DOUBLE": np.array([0.5, -1e300, np.pi]),
        "UBIGINT": np.array([0, 1, 2**64 - 1], np.uint64),
        "UINTEGER": np.array([0, 1, 2**32 - 1]),
        "USMALLINT": np.array([0, 1, 2**16 - 1]),
        "UTINYINT": np.array([0, 1, 255]),
        "BOOLEAN": np.array([False, True, True]),
    }
    texts = ["", "Größe\0\n", "long " * 10_000]
    tables = {**APPENDED, **REPLACED, **JOURNALED}
    del tables["stacks"]  # a journal has `heads` and `members` instead
    for table, types in tables.items():
        columns = {name: texts if kind == "VARCHAR" else numbers[kind] for name, kind in types.items()}
        for _ in range(2):
            (journal.replace if table in REPLACED else journal.append)(table, columns)
    journal.close()
    reader = JournalTables(recording)
    for table, types in tables.items():
        times = 1 if table in REPLACED else 2
        for name, values in reader.read(table).items():
            expected = texts if types[name] == "VARCHAR" else numbers[types[name]].tolist()
            assert values.tolist() == list(expected) * times, (table, name)


def test_an_unfinished_recording_is_read(unfinished: Path) -> None:
    assert in_writing(unfinished)
    assert not list(unfinished.rglob("*.parquet"))
    got = load(unfinished)
    assert got.process["time"].tolist() == [0.0, 1.0, 2.0]
    assert [frame.name for frame in got.stack(1)] == ["malloc", "allocate", "build"]
    assert len(got.live) == 3
    assert got.owners.names == ["gc", "malloc"]
    assert got.collections is not None
    assert got.collections.kinds == ("young", "young")


def test_finishing_changes_nothing(unfinished: Path, tmp_path: Path) -> None:
    target = writer(tmp_path / "a.offheap")
    fill(target)
    target.finish()
    target.close()
    assert not in_writing(target.path)
    assert not list(target.path.glob(".*"))
    before, after = load(unfinished), load(target.path)
    assert before.frames == after.frames
    assert before.threads == after.threads
    assert before.modules == after.modules
    for name in ("stack_frames", "stack_offsets", "stack_kinds", "live", "series", "process"):
        assert np.array_equal(getattr(before, name), getattr(after, name)), name


@pytest.mark.parametrize("table", ["series", "process", "owners", "heads", "frames"])
def test_cut_anywhere(recording: Path, table: str) -> None:
    """A killed recorder leaves whole blocks and the beginning of one: the whole ones are read."""
    path = blocks(recording, table)
    data = path.read_bytes()
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + HEAD.size + HEAD.unpack_from(data, ends[-1])[3])
    # `owners` has two rows in one block, `frames` two functions under one number.
    rows = [len(next(iter(part.values()))) for part in JournalTables(recording).blocks(table)]
    for length in range(len(data)):
        path.write_bytes(data[:length])
        whole = sum(1 for end in ends[1:] if end <= length)
        read = JournalTables(recording).read(table)
        assert len(next(iter(read.values()))) == sum(rows[:whole]), length
    load(recording)


@settings(max_examples=200)
@given(data=st.data())
def test_flipped_bytes(
    unfinished: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed-journal.offheap"
    shutil.copytree(unfinished, path, dirs_exist_ok=True)
    file = data.draw(st.sampled_from(sorted((path / "journal").iterdir())))
    raw = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(raw)
    with contextlib.suppress(UserError):
        load(path)


@settings(max_examples=200)
@given(
    table=st.sampled_from(["live", "series", "heads", "members", "raws", "frames", "modules", "threads"]),
    rows=st.integers(0, 40),
    data=st.binary(max_size=200),
)
def test_blocks_of_anything(
    unfinished: Path, tmp_path_factory: pytest.TempPathFactory, table: str, rows: int, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "anything.offheap"
    shutil.copytree(unfinished, path, dirs_exist_ok=True)
    blocks(path, table).write_bytes(block(rows, data))
    with contextlib.suppress(UserError):
        load(path)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"ohb2" + bytes(20), "series at byte 0: no block"),
        (HEAD.pack(b"ohb1", 1, 1 << 60, 8) + bytes(8), "series at byte 0: no block"),
        (HEAD.pack(b"ohb1", 1, 84, 8) + bytes(8), "series at byte 24: "),
        (block(1, bytes(84), inflated=83), "another length"),
        (block(1, bytes(84), inflated=85), "another length"),
        (block(2, bytes(84)), "smaller than requested"),
        (block(1, bytes(85)), "1 bytes too many"),
        (block(2**32 - 1, bytes(84)), "smaller than requested"),
    ],
)
def test_a_block_that_is_none(recording: Path, data: bytes, why: str) -> None:
    blocks(recording, "series").write_bytes(data)
    with pytest.raises(UserError, match=rf"is damaged: .*{why}"):
        load(recording)


def test_texts_longer_than_their_block(recording: Path) -> None:
    its = np.array([0], np.uint16).tobytes() + np.array([2**32 - 1], np.uint32).tobytes() + b"main"
    blocks(recording, "threads").write_bytes(block(1, its))
    with pytest.raises(UserError, match="threads at byte 24: texts are longer than their block"):
        load(recording)


@pytest.mark.parametrize("table", ["live", "raws", "frames"])
def test_a_block_of_zeros_costs_no_memory(recording: Path, table: str) -> None:
    """4 GiB of zeros deflate to 4 MiB."""
    deflate = zlib.compressobj(9, wbits=-15)
    # A full flush ends a part that may be repeated: to deflate all of it takes 20 s of CPU.
    part = deflate.compress(bytes(16 * MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    size = 4096 * MIB
    checksum = size % 65521 << 16 | 1  # Adler-32 of zeros
    body = b"\x78\xda" + 256 * part + b"\x03\x00" + checksum.to_bytes(4, "big")
    blocks(recording, table).write_bytes(HEAD.pack(b"ohb1", 2**32 - 1, size, len(body)) + body)
    its = measured(offheap("summary", str(recording)), 60.0)
    assert (its.status, its.stdout, its.stderr.count("\n")) == (2, "", 1), its.stderr
    assert "of memory to be read" in its.stderr
    assert its.peak_bytes < MOST


def test_a_table_that_is_a_fifo(recording: Path) -> None:
    blocks(recording, "series").unlink()
    os.mkfifo(blocks(recording, "series"))
    its = measured(offheap("summary", str(recording)), 60.0)
    assert (its.status, its.stdout, its.stderr.count("\n")) == (2, "", 1), its.stderr
    assert "is not a regular file" in its.stderr
    with pytest.raises(UserError, match=r"series\.blocks cannot be read: is not a regular file"):
        load(recording)


def test_read_while_it_is_written_and_finished(tmp_path: Path) -> None:
    """The reader meets each state: it never fails, and the number of snapshots never falls."""
    target = writer(tmp_path / "a.offheap")
    fill(target)
    written = threading.Event()

    def write() -> None:
        for n in range(3, 200):
            target.append_rows("series", series(n, 2, float(n)))
            target.append_rows("process", process(n))
            target.replace_live(live([1, 1, 2] * n))
        target.finish()
        target.close()
        written.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = [0]
    while not written.is_set():
        seen.append(len(load(target.path).process))
    thread.join()
    assert seen == sorted(seen)
    assert len(load(target.path).process) == 200
    assert not in_writing(target.path)


def test_a_disk_that_is_full_at_the_end(
    unfinished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables do not fit beside the journal: the journal remains, and is the recording."""
    target = writer(tmp_path / "a.offheap")
    fill(target)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with _files_of_at_most(100), pytest.raises(OSError):
        target.finish()
    target.close()
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == (soft, hard)
    assert in_writing(target.path)
    assert not list(target.path.rglob("*.parquet*"))
    assert load(target.path).process["time"].tolist() == [0.0, 1.0, 2.0]


@contextlib.contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """Writes beyond the size fail (EFBIG), as on a full disk."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def test_writing_needs_neither_duckdb_nor_symbolic() -> None:
    """DuckDB and symbolic take 60 MB of memory, and the recorder runs beside a JVM near its limit."""
    code = (
        "import sys\n"
        "import offheap.cli.attach, offheap.cli.run\n"
        "import offheap.recording.capture.recorder, offheap.launch.launch\n"
        "print(sorted({'duckdb', 'symbolic', 'rich', 'textual'} & set(sys.modules)))"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout == "[]\n"


def test_long_tables_take_little_memory(tmp_path: Path) -> None:
    """A recorder's place is beside a JVM near its memory limit; admission.RECORDER_BYTES counts on this."""
    target = writer(tmp_path / "a.offheap")
    fill(target, 2)
    rows = np.repeat(series(0.0, 1, 100.0), 500)
    random = np.random.default_rng(1)
    for number in range(500):
        rows["time"] = number
        for name in ("live_bytes", "live_bytes_variance", "allocated_bytes", "allocated_bytes_variance"):
            rows[name] = random.random(len(rows)) * 1e6
        target.append_rows("series", rows)
    target.close()
    code = "import sys; from pathlib import Path; from offheap.recording.storage import finishing; "
    code += "finishing.write_tables(Path(sys.argv[1]))"
    with subprocess.Popen([sys.executable, "-c", code, str(target.path)], text=True) as process:
        most = most_anonymous(process)
    assert process.returncode == 0
    # 17 MiB of it are Python and numpy, 12 an idle DuckDB.
    assert 0 < most.writing < 48 << 20, f"{most.writing >> 20} MiB"


def test_too_little_memory_to_finish(unfinished: Path, tmp_path: Path) -> None:
    """DuckDB does not fit into the remaining memory: one line, and the recording is unchanged."""
    script = """
import re, resource, sys
from pathlib import Path
from offheap.errors import UserError
from offheap.recording.storage.writer import writer
from harness.paths import ROOT
from harness.recordings.stored import fill

target = writer(Path(sys.argv[1]))
fill(target)
size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (40 << 20),) * 2)
try:
    target.finish()
except UserError as error:
    print(error.what, error.mend, sep="\\n")
"""
    recording = tmp_path / "a.offheap"
    ran = subprocess.run(
        [sys.executable, "-c", script, recording],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    what, mend = ran.stdout.splitlines()
    assert what.startswith(f"the Parquet tables of {recording} cannot be written: ")
    assert mend.endswith(f"offheap leaks {recording}")
    assert in_writing(recording)
    assert not list(recording.rglob("*.parquet"))
    assert load(recording).frames == load(unfinished).frames
