"""Other tools' files that stand for more than they hold: an import takes bounded memory."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.hostile.process import measured
from harness.recordings.imported_profiles import SAMPLES
from offheap.formats import pprof_schema
from offheap.formats.imported.samples import pprof_message
from offheap.formats.imported.source import TIMES_TEXT
from offheap.recording import allowance

MIB = 1 << 20
ALLOWED = 32 * MIB
TEXT = ALLOWED // TIMES_TEXT - 1000  # the longest text that is read
# The interpreter and numpy take 43 MiB, protobuf 5, and DuckDB 40 where a recording is written.
BESIDE_REFUSAL, BESIDE_IMPORT = 50 * MIB, 92 * MIB
SECONDS = 120.0
TOO_MUCH = "needs more than 32.0 MiB of memory to be read"

HEADS = {
    "massif": b"desc: a\ncmd: b\ntime_unit: B\n",
    "memcheck": b"==1== Memcheck, a memory error detector\n",
    "lsan": b"==1==ERROR: LeakSanitizer: detected memory leaks\n",
    "sapmachine-malloctrace": b"Stacks were collected via backtrace.\nContains all since enabling.\n",
    "nmt": b"Native Memory Tracking:\n\nTotal: reserved=1, committed=1\n",
}
LINES = {
    "newlines": b"\n",
    "two letters": b"ab\n",
    "no UTF-8": b"\xff" + "\U00010000\n".encode(),
}


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(allowance.VARIABLE, str(ALLOWED))


def imported(path: Path, name: str, *options: str, most: int = 0) -> str:
    """What the command says, which either imports the file or refuses it in one line."""
    command = ("import", str(path), "--format", name, "-o", f"{path}.offheap", *options)
    its = measured(offheap(*command), SECONDS)
    most = most or ALLOWED + (BESIDE_REFUSAL if its.status else BESIDE_IMPORT)
    assert its.peak_bytes < most, f"{its.peak_bytes / MIB:.0f} MiB"
    assert not its.stdout
    assert its.status in (0, 2), its.stderr
    if its.status:
        assert its.stderr.count("\n") == 1, its.stderr
        assert str(path.parent) in its.stderr
    return its.stderr


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, 1))
    return path


def repeated(part: bytes, size: int) -> bytes:
    return part * (size // len(part))


def numbered(text: Callable[[int], str], size: int) -> bytes:
    """Texts of 0, 1, 2 ... up to that size."""

    def parts() -> Iterator[bytes]:
        left, number = size, 0
        while left > 0:
            yield (part := text(number).encode())
            left, number = left - len(part), number + 1

    return b"".join(parts())


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("name", HEADS)
def test_texts_of_short_lines(name: str, lines: str, tmp_path: Path) -> None:
    text = HEADS[name] + repeated(LINES[lines], TEXT - len(HEADS[name]))
    imported(packed(tmp_path / "a.gz", text), name)


# What a format allows, as short as it allows it: each line costs many times its own size.
SHORT: dict[str, Callable[[int], str]] = {
    "massif": lambda n: f"snapshot={n}\ntime={n}\nn1: 9 a\n n0: 9 {n:x}\n",
    "memcheck": lambda n: (
        f"==1==    at 0x1: {n:x}\n"
        if n % 20
        else "==1== 1 bytes in 1 blocks are still reachable in loss record 1\n"
    ),
    "lsan": lambda n: f"Direct leak of 1 byte(s) in 1 object(s) allocated from:\n #0 0x1 in {n:x}\n",
    "sapmachine-malloctrace": lambda n: f"Stack 1 of 1: 1 bytes, 1 allocations\n[0x1] {n:x}\n",
    "nmt": lambda n: f"- {n:x} (reserved=1, committed=1)\n (malloc=1 #1)\n",
}


@pytest.mark.parametrize("name", SHORT)
def test_texts_of_many_stacks(name: str, tmp_path: Path) -> None:
    text = HEADS[name] + numbered(SHORT[name], TEXT - 1000)
    said = imported(packed(tmp_path / "a.gz", text), name)
    assert TOO_MUCH in said


def test_a_stack_without_end(tmp_path: Path) -> None:
    head = HEADS["lsan"] + b"Direct leak of 1 byte(s) in 1 object(s) allocated from:\n"
    said = imported(packed(tmp_path / "a.gz", head + b" #0 0x1\n" * 5000), "lsan")
    assert "line 4099: a stack of more than 4,096 frames" in said


def test_xml_of_many_names(tmp_path: Path) -> None:
    head = b'<?xml version="1.0"?>\n<valgrindoutput>\n<protocoltool>memcheck</protocoltool>\n'
    text = head + numbered(lambda n: f"<a{n:x}/>\n", TEXT - 1000)
    assert "more than 1,000 names of elements" in imported(packed(tmp_path / "a.gz", text), "memcheck")


def test_xml_of_long_texts(tmp_path: Path) -> None:
    """Quadratic time is a fault as well: `measured` ends the command."""
    head = b'<?xml version="1.0"?>\n<valgrindoutput>\n<protocoltool>memcheck</protocoltool>\n'
    text = head + b"<a>" + repeated(b"ab &amp;\n", TEXT - 1000) + b"</a></valgrindoutput>\n"
    imported(packed(tmp_path / "a.gz", text), "memcheck")


def test_many_maps(tmp_path: Path) -> None:
    maps = packed(
        tmp_path / "maps",
        numbered(lambda n: f"{2 * n:x}-{2 * n + 1:x} r--p 0 0:0 0 /{n:x}\n", ALLOWED // 10),
    )
    log = tmp_path / "mtrace.log"
    log.write_bytes((SAMPLES / "mtrace.log").read_bytes())
    assert "which need 32 times as much memory" in imported(log, "mtrace", "--maps", str(maps))


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def pprof_of(field_of: Callable[[int], bytes]) -> bytes:
    """A profile with as many such fields as are read."""
    made = pprof_schema.profile_class()()
    made.string_table.extend([b"", b"inuse_space", b"bytes"])
    made.sample_type.add(type=1, unit=2)
    size = ALLOWED // pprof_message._TIMES_FILE - 1000
    length = len(field_of(0))
    return bytes(made.SerializeToString()) + b"".join(map(field_of, range(size // length)))


def numbered_field(number: int, n: int) -> bytes:
    """A field that is a message with the id n."""
    return field(number, b"\x08" + bytes([n & 127 | 128, n >> 7 & 127 | 128, n >> 14]))


FIELDS: dict[str, tuple[Callable[[int], bytes], str]] = {
    "samples": (lambda n: field(2, b""), "0 values for 1 sample types"),
    "mappings": (lambda n: numbered_field(3, n), TOO_MUCH),
    "locations": (lambda n: numbered_field(4, n), TOO_MUCH),
    "functions": (lambda n: numbered_field(5, n), TOO_MUCH),
    "strings": (lambda n: field(6, b"\xff"), TOO_MUCH),
    "types": (lambda n: field(1, b""), TOO_MUCH),
}


@pytest.mark.parametrize("what", FIELDS)
def test_pprof_of_empty_messages(what: str, tmp_path: Path) -> None:
    field_of, words = FIELDS[what]
    assert words in imported(packed(tmp_path / "a.pb.gz", pprof_of(field_of)), "pprof")


def test_pprof_of_one_sample_with_everything(tmp_path: Path) -> None:
    sample = b"\x1a\x00" * (MIB // 2 + 8)
    length = bytes([len(sample) & 127 | 128, len(sample) >> 7 & 127 | 128, len(sample) >> 14])
    path = packed(tmp_path / "a.pb.gz", pprof_of(lambda n: b"\x12" + length + sample))
    assert "a Sample of more than 1 MiB" in imported(path, "pprof")


def test_the_whole_process_has_a_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN tables whose memory no reader adds up THEN allocations fail, which is one line."""
    monkeypatch.setenv(allowance.VARIABLE, "1MiB")
    path = packed(tmp_path / "a.gz", b"v 1 3\n" + b"i 0 0\n" * 4_000_000)
    said = imported(path, "heaptrack", most=allowance.BESIDE_IMPORT + 100 * MIB)
    assert "needs more than 1.0 MiB of memory to be read" in said
