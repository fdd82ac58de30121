"""Reading live files: their content, their faults, and no exception but UserError."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import needs
from harness.recordings.live_file_example import GOOD, PLACES, example, read_all
from harness.recordings.live_file_writer import INTERVAL, LiveFileWriter, hook, java
from offheap.analysis.totals.stats import losses
from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.contract import Coverage, Loss, Mode, Section, State
from offheap.probe.live_files import search
from offheap.probe.live_files.live_file import LiveFile
from offheap.probe.live_files.modified_utf8 import decode
from offheap.recording import load
from offheap.recording.model import Frame
from offheap.recording.names.java_names import bytecode_index, class_name, method_name
from offheap.symbols import Symbolizer


def test_everything_in_a_live_file_comes_out(tmp_path: Path) -> None:
    recording = load(example().write(tmp_path / "a.live"))

    assert [(f.name, f.kind) for f in recording.stack(1)] == [
        ("malloc", "native"),
        ("libfoo.so+0x1234", "native"),
        ("java.util.zip.Inflater.init", "java"),
        ("com.example.Shop.unpack", "java"),
        ("unknown Java method", "unknown"),
    ]
    assert recording.stack(1)[3] == Frame("com.example.Shop.unpack", "java", "", "Shop.java", 12)
    assert recording.stack(1)[2].line == 0
    assert [f.name for f in recording.stack(2)] == [
        "mmap",
        "0x7f1234567890",
        "Java frames missing: in VM, not walkable (-4)",
    ]
    assert recording.stack(0) == []
    assert recording.stack_kinds.tolist() == [0, 1, 2]
    assert recording.threads == ["other threads", "main"]
    assert recording.modules[0].path == "/nowhere/libfoo.so"
    assert recording.modules[0].build_id == bytes(range(20)).hex()

    assert recording.live["stack"].tolist() == [1, 1, 2]
    assert recording.live["thread"].tolist() == [1, 0, 0]
    assert recording.live["size"].tolist() == [100, INTERVAL, 0x10000]
    assert recording.live["birth"].tolist() == [1.5, 2.5, 0.5]
    expected = [-np.expm1(-size / INTERVAL) for size in (100, INTERVAL, 0x20000)]
    assert np.allclose(recording.live["probability"], expected)

    (first, second) = recording.series
    assert first["stack"] == 1
    assert first["samples"] == 7
    assert first["allocated_blocks"] == 10.0
    assert first["allocated_bytes"] == 8000.0
    assert np.isclose(first["live_bytes"], 100 / expected[0] + INTERVAL / expected[1])
    assert np.isclose(first["live_blocks_variance"], sum((1 - p) / p**2 for p in expected[:2]))
    assert second["stack"] == 2

    info = recording.info
    assert info.pid == os.getpid()
    assert info.mode == "sampled"
    assert info.interval_bytes == INTERVAL
    assert info.ended == "recording"
    assert 99 < info.duration_seconds < 200
    assert info.java_version == "17.0.9"
    assert info.main_class == "com.example.Shop"
    assert info.lost == {"lost_java": 3}
    assert info.joined == 7
    assert len(info.coverage) == 2
    assert "dynamic linker" in info.coverage[0]
    assert info.coverage[1] == "libfoo.so: the file is gone"


def test_exact_blocks_are_certain(tmp_path: Path) -> None:
    recording = load(example(Mode.EXACT).write(tmp_path / "a.live"))
    assert recording.info.mode == "exact"
    assert recording.info.interval_bytes == 0
    assert recording.live["probability"].tolist() == [1.0, 1.0, 1.0]
    assert recording.series["live_bytes_variance"].tolist() == [0.0, 0.0]
    assert recording.series["live_bytes"].tolist() == [100.0 + INTERVAL, 65536.0]
    assert recording.series["allocated_blocks"].tolist() == [7.0, 0.0]  # each block is a sample


@pytest.mark.parametrize(
    ("state", "process_start", "ended"),
    [
        (State.RECORDING, None, "recording"),
        (State.RECORDING, 1, "killed"),
        (State.STOPPED, None, "detached"),
        (State.EXITED, 1, "exited"),
    ],
)
def test_how_it_ended(tmp_path: Path, state: State, process_start: int | None, ended: str) -> None:
    writer = example()
    writer.state = state
    if process_start is not None:
        writer.process_start = process_start  # another process has the PID
    if state is not State.RECORDING:
        writer.stop_monotonic_ns = writer.start_monotonic_ns + 5 * 10**9
    recording = load(writer.write(tmp_path / "a.live"))
    assert recording.info.ended == ended
    if writer.stop_monotonic_ns:
        assert recording.info.duration_seconds == pytest.approx(5.0)


def test_command_line_of_a_dead_process_is_in_the_file(tmp_path: Path) -> None:
    writer = example()
    writer.process_start = 1
    info = load(writer.write(tmp_path / "a.live")).info
    assert info.command_line == ("java", "-Xmx1g", "-cp", "a.jar", "com.example.Shop", "--open")
    assert info.jvm_flags == ("-Xmx1g", "-cp", "a.jar")


def test_blocks_being_written_are_left_out(tmp_path: Path) -> None:
    writer = example()
    writer.keys[0] |= np.uint64(1)
    recording = load(writer.write(tmp_path / "a.live"))
    assert recording.live["size"].tolist() == [INTERVAL, 0x10000]


def test_rows_at_rest_only(tmp_path: Path) -> None:
    """A writer changes blocks under the reader: size, stack and birth always belong together."""
    writer = LiveFileWriter(mode=Mode.EXACT)
    stack = writer.stack(hook("malloc"))
    count = 4096
    numbers = np.arange(count)
    writer.blocks(16 * (numbers + 1), numbers + 1, np.full(count, stack), numbers + 1, np.zeros(count))
    path = writer.write(tmp_path / "a.live")
    with LiveFile(path) as reader:
        keys_at = int(reader.header.sections[Section.KEYS]["offset"])
        values_at = int(reader.header.sections[Section.VALUES]["offset"])
        values = np.memmap(path, contract.VALUE, "r+", values_at, (count,))
        keys = np.memmap(path, contract.KEY, "r+", keys_at, (count,))
        # A process races the reader; a thread would take turns with it.
        pid = os.fork()
        if pid == 0:
            for step in itertools.count(1):
                slots = np.random.default_rng(step).integers(
                    0, count, 16
                )  # with more slots none would ever be at rest
                key = keys[slots] & ~np.uint64(1)
                keys[slots] = key | np.uint64(1)
                values["block"][slots] = step % 10**9
                values["birth"][slots] = step % 10**9
                keys[slots] = key
        try:
            for _ in range(1000):
                live = reader.live()
                assert (live["size"] == np.rint(live["birth"] / 0.01)).all()
                assert len(live) > 0
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_stack_being_written_is_read_later(tmp_path: Path) -> None:
    writer = example()
    rows = writer.rows[Section.STACKS]
    hashed, rows[2] = rows[2], (0, *rows[2][1:])
    path = writer.write(tmp_path / "a.live")
    with LiveFile(path) as reader:
        first = reader.stacks(0)
        assert first.depths.tolist() == [0, 5]
        rows[2] = hashed
        writer.write(path)
        reader.refresh()
        second = reader.stacks(2)
        assert second.depths.tolist() == [3]
        assert second.frames.tolist()[0] == hook("mmap")


def test_a_million_live_blocks_are_read_fast(tmp_path: Path) -> None:
    writer = LiveFileWriter(mode=Mode.EXACT)
    stack = writer.stack(hook("malloc"))
    count = 1_000_000
    numbers = np.arange(count, dtype=np.uint64)
    writer.blocks(16 * (numbers + 1), numbers % 1000, np.full(count, stack), numbers % 5000, np.zeros(count))
    with LiveFile(writer.write(tmp_path / "a.live")) as reader:
        began = time.process_time()
        live = reader.live()
        cost = time.process_time() - began
    assert len(live) == count
    assert int(live["size"].sum()) == int((numbers % 1000).sum())
    assert cost < 2.0  # about 0.15 s


# One line for each fault.


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load(tmp_path / "nothing")


@pytest.mark.parametrize("content", [b"", b"\x7fELF and so on", b"OFFHEAP", b"\0" * 100_000])
def test_foreign(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.live").write_bytes(content)
    with pytest.raises(UserError, match="not a live file"):
        load(tmp_path / "a.live")


def test_newer(tmp_path: Path) -> None:
    raw = bytearray(example().bytes())
    raw[8:12] = (contract.VERSION + 1).to_bytes(4, "little")
    (tmp_path / "a.live").write_bytes(raw)
    with pytest.raises(UserError, match=r"newer offheap.*upgrade"):
        load(tmp_path / "a.live")


@pytest.mark.parametrize("length", [8, 100, 4095, 4096, 5000, -1])
def test_truncated(tmp_path: Path, length: int) -> None:
    (tmp_path / "a.live").write_bytes(example().bytes()[:length])
    with pytest.raises(UserError, match="truncated"):
        load(tmp_path / "a.live")


def test_truncated_while_it_is_read(tmp_path: Path) -> None:
    path = example().write(tmp_path / "a.live")
    with LiveFile(path) as reader:
        os.truncate(path, 4096)
        with pytest.raises(UserError, match="truncated"):
            reader.live()


def test_still_being_made(tmp_path: Path) -> None:
    writer = example()
    writer.state = State.INITIAL
    with pytest.raises(UserError, match="being created"):
        load(writer.write(tmp_path / "a.live"))


def test_links_are_not_followed(tmp_path: Path) -> None:
    example().write(tmp_path / "a.live")
    (tmp_path / "b.live").symlink_to(tmp_path / "a.live")
    with pytest.raises(UserError, match="cannot be opened"):
        load(tmp_path / "b.live")


def test_a_fifo_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.live")
    with pytest.raises(UserError, match="not a file"):
        load(tmp_path / "a.live")


@needs.as_root
def test_another_users_file(tmp_path: Path) -> None:
    path = example().write(tmp_path / "a.live")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(0o755)
    path.chmod(0o644)
    os.chown(path, 12345, 12345)
    script = (
        "import os, sys; from pathlib import Path\n"
        "from offheap.errors import UserError; from offheap.probe.live_files.live_file import LiveFile\n"
        "os.setuid(65534)\n"
        "try: LiveFile(Path(sys.argv[1]))\n"
        "except UserError as error: print(error)\n"
    )
    printed = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert "belongs to another user (uid 12345); run offheap as that user, or as root" in printed.stdout


@pytest.mark.parametrize("section", list(Section))
@pytest.mark.parametrize(("field", "value"), [("offset", 2**63), ("capacity", 2**60), ("row_bytes", 3)])
def test_sections_that_lie_outside(tmp_path: Path, section: Section, field: str, value: int) -> None:
    raw = np.frombuffer(bytearray(example().bytes()), "u1")
    raw[:4096].view(contract.HEADER)["sections"][field][0, section] = value
    (tmp_path / "a.live").write_bytes(raw.tobytes())
    with pytest.raises(UserError, match="damaged"):
        load(tmp_path / "a.live")


# Fuzzing.  One symbolizer for all, because its tables are not under test.


@settings(max_examples=300)
@given(st.data())
def test_flipped_bytes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    raw = bytearray(GOOD)
    for at in data.draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=8)):
        raw[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "flipped.live"
    path.write_bytes(raw)
    read_all(path)


@settings(max_examples=100)
@given(length=st.integers(0, len(GOOD) - 1), random=st.binary(max_size=64))
def test_cut_and_continued(tmp_path_factory: pytest.TempPathFactory, length: int, random: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.live"
    path.write_bytes(GOOD[:length] + random)
    read_all(path)


@given(st.binary(max_size=300))
def test_any_bytes_decode(raw: bytes) -> None:
    decode(raw).encode()  # the result has no lone surrogate


@given(st.text(max_size=50))
def test_modified_utf8(text: str) -> None:
    raw = b""
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        raw += b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
    assert decode(raw) == text


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("Ljava/util/zip/Inflater;", "java.util.zip.Inflater"),
        ("LMain;", "Main"),
        ("LMain$Inner$1;", "Main$Inner$1"),
        ("[[I", "int[][]"),
        ("[Ljava/lang/String;", "java.lang.String[]"),
        ("LMain$$Lambda$14.0x0000000800066840;", "Main$$Lambda"),
        ("LMain$$Lambda.0x00007f2b4c001000;", "Main$$Lambda"),
        ("LMain$$Lambda$1/566891196;", "Main$$Lambda"),
        ("Ljava/lang/invoke/LambdaForm$MH.0x0000000800c10c00;", "java.lang.invoke.LambdaForm$MH"),
        ("Ljava/lang/invoke/LambdaForm$DMH/0x0000000800c10c00;", "java.lang.invoke.LambdaForm$DMH"),
        ("", ""),
    ],
)
def test_class_names(signature: str, name: str) -> None:
    assert class_name(signature) == name
    assert method_name(signature, "run") == (f"{name}.run" if name else "run")


def test_bytecode_indices() -> None:
    bcis = [0, 7, -3, -1, -4]
    assert [bytecode_index(java(5, bci)) for bci in bcis] == bcis


# Search.


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = example().write(tmp_path / f"offheap-{os.getpid()}-0123456789abcdef.live")
    dead = example()
    dead.process_start = 1
    dead.coverage |= Coverage.NO_JVM
    dead.start_monotonic_ns -= 10**9
    its = dead.write(tmp_path / "offheap-4711-0123456789abcdef.live")
    (tmp_path / "offheap-1-0000000000000000.live").write_bytes(b"nonsense")
    example().write(tmp_path / "another-name.live")

    found = [file for file in search.find() if file.path.parent == tmp_path]
    assert [file.path for file in found] == [mine, its]
    assert [file.pid for file in found] == [os.getpid(), None]
    assert [file.jvm for file in found] == [True, False]
    assert [file.recording for file in found] == [True, False]
    assert [file.path for file in search.find(os.getpid())] == [mine]


@needs.as_root
def test_a_file_that_another_user_made_in_a_processs_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN this process's PID and start time in it THEN root does not accept it as the process's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = example().write(tmp_path / f"offheap-{os.getpid()}-0123456789abcdef.live")
    planted = example()
    planted.start_monotonic_ns += 10**9  # the newer one
    its = planted.write(tmp_path / f"offheap-{os.getpid()}-00000000feedf00d.live")
    assert [file.path for file in search.find(os.getpid())] == [its, mine]
    os.chown(its, 65534, 65534)
    assert [file.path for file in search.find(os.getpid())] == [mine]


def test_the_symbolizer_is_the_one_declared() -> None:
    assert Symbolizer().resolve("/nowhere/libfoo.so", "", [1, 2]) == [(), ()]


def test_a_compiled_method_whose_inlined_methods_are_not_known(tmp_path: Path) -> None:
    """GIVEN no debug record at a call WHEN named THEN the compiled method has the name, after a gap."""
    writer = LiveFileWriter(losses={Loss.JAVA_JOINED: 1, Loss.JAVA_INEXACT: 1})
    method = writer.method("Lcom/example/Shop;", "unpack", "Shop.java", ((0, 10), (5, 12)))
    stack = writer.stack(hook("malloc"), java(method, -4))
    writer.block(0x1000, 100, stack, birth=150)
    writer.count(stack, 1, 1.0, 100)
    recording = load(writer.write(tmp_path / "a.live"))
    (number,) = {int(row["stack"]) for row in recording.live}
    gap, frame = recording.stack(number)[-2:]
    assert (gap.kind, gap.name) == (
        "unknown",
        "inlined Java methods missing: no debug record at the call",
    )
    assert (frame.kind, frame.name, frame.line) == ("java", "com.example.Shop.unpack", 0)
    assert losses(recording.info) == (
        "1 sample has a compiled Java frame whose inlined methods are not known",
    )
