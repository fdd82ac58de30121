"""Every reader with damaged files: a profile whose tables agree, or one UserError that names the file."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.plugins.rotation import seed
from harness.recordings.imported_profiles import SAMPLES, Reader, check, outcome
from harness.warm_command import warm
from offheap.errors import UserError
from offheap.formats.imported import formats, source
from offheap.formats.imported.events import heaptrack, mtrace
from offheap.formats.imported.jfr import recording
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.reports import malloc_trace, massif, memcheck, native_memory_tracking, sanitizer
from offheap.formats.imported.samples import collapsed, heap_text, pprof

READERS: dict[str, Reader] = {
    "mtrace.log": mtrace,
    "heaptrack.zst": heaptrack,
    "massif.out": massif,
    "memcheck.txt": memcheck,
    "memcheck.xml": memcheck,
    "lsan.txt": sanitizer,
    "asan.txt": sanitizer,
    "nmt-17-detail.txt": native_memory_tracking,
    "nmt-25-summary.txt": native_memory_tracking,
    "malloctrace.txt": malloc_trace,
    "go.pb.gz": pprof,
    "async-profiler.collapsed": collapsed,
    "async-profiler-sampled.jfr.gz": recording,
    "async-profiler-live.jfr.gz": recording,
    "nmt-25.jfr.gz": recording,
    "jemalloc.heap": heap_text,
    "gperftools.heap": heap_text,
    "go-debug1.txt": heap_text,
}
# Samples that differ from one above in size or release alone.
MORE_READERS: dict[str, Reader] = {
    "async-profiler.jfr.gz": recording,
    "async-profiler.pb.gz": pprof,
    "memcheck-jvm.txt.gz": memcheck,
    "nmt-11-detail.txt": native_memory_tracking,
    "nmt-21-detail.txt": native_memory_tracking,
    "nmt-25-detail.txt": native_memory_tracking,
    "nmt-8-detail.txt": native_memory_tracking,
    "nmt-26-detail.txt": native_memory_tracking,
    "nmt-27-detail.txt": native_memory_tracking,
}
ALL_READERS = READERS | MORE_READERS
CUTS = 100  # places where a sample is cut, at equal distances: 3 seconds for all; OFFHEAP_SEED moves them
NUMBERS = (b"", b"0", b"-1", b"ffffffffffffffff", b"9" * 30, b"18446744073709551615", b"1e9")
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("sample", READERS)
def test_cut_anywhere(sample: str, tmp_path: Path) -> None:
    """GIVEN a sample WHEN it ends at any byte, compressed or not THEN no other error than UserError."""
    for data in forms(sample):
        step = len(data) // CUTS + 1
        cut(sample, data, range(seed() % step, len(data), step), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("sample", ALL_READERS)
def test_cut_at_every_byte(sample: str, tmp_path: Path) -> None:
    """15 minutes of CPU for all samples, 1.1 million cuts."""
    for data in forms(sample):
        cut(sample, data, range(len(data)), tmp_path)


def test_every_sample_is_cut() -> None:
    files = {path.name for path in SAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert files == set(ALL_READERS)


def forms(sample: str) -> set[bytes]:
    """The sample as it is, and after decompression."""
    return {(SAMPLES / sample).read_bytes(), source.whole(SAMPLES / sample)}


def cut(sample: str, data: bytes, ends: Iterable[int], folder: Path) -> None:
    reader, path = ALL_READERS[sample], folder / sample
    for end in ends:
        path.write_bytes(data[:end])
        reader.recognises(data[:end])
        outcome(reader, path)


@pytest.mark.parametrize("sample", READERS)
def test_the_command_ends_with_one_line_and_status_2(sample: str, tmp_path: Path) -> None:
    """GIVEN the longest beginning of a file, in steps of 1/64, that is no profile WHEN it is imported."""
    reader, whole = READERS[sample], (SAMPLES / sample).read_bytes()
    path, output = tmp_path / sample, tmp_path / "out.offheap"
    for part in range(63, -1, -1):
        path.write_bytes(whole[: len(whole) * part // 64])
        said = outcome(reader, path)
        if isinstance(said, str):
            break
    else:
        raise AssertionError("even an empty file is a profile")
    done = warm("import", path, "--format", reader.FORMAT, "-o", output)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert not done.stdout
    assert not output.exists()


def fault(read: Callable[[], Profile]) -> str:
    """What the UserError says; "" where a profile comes."""
    try:
        check(read())
    except UserError as error:
        return error.what
    return ""


@QUICK
@given(maps=st.binary(max_size=400), names=st.binary(max_size=400))
def test_any_maps_and_names_beside(tmp_path: Path, maps: bytes, names: bytes) -> None:
    """GIVEN any bytes as --maps and --perf-map THEN a profile, or one UserError that names a file."""
    for name, content in (("maps", maps), ("names", names)):
        (tmp_path / name).write_bytes(content)
    dump, log, beside = SAMPLES / "jemalloc.heap", SAMPLES / "mtrace.log", tmp_path / "maps"
    for said in (
        fault(lambda: heap_text.read([dump], beside, tmp_path / "names")),
        fault(lambda: formats.read([log], None, beside, None)),
    ):
        assert not said or str(tmp_path) in said


@pytest.mark.parametrize("sample", ["jemalloc.heap", "mtrace.log", "nmt-25-summary.txt", "nmt-25.jfr.gz"])
def test_a_damaged_file_in_a_series(sample: str, tmp_path: Path) -> None:
    """GIVEN a whole file and a cut one THEN the error names the cut one, or both are read."""
    data = source.whole(SAMPLES / sample)
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    whole.write_bytes(data)
    for end in range(0, len(data), len(data) // 20 + 1):
        torn.write_bytes(data[:end])
        said = fault(lambda: READERS[sample].read([whole, torn]))
        assert not said or str(tmp_path) in said, said


@QUICK
@given(data=st.data())
@pytest.mark.parametrize("sample", READERS)
def test_changed_anywhere(sample: str, tmp_path: Path, data: st.DataObject) -> None:
    """GIVEN a sample WHEN bytes, numbers or lines are replaced THEN the same."""
    plain = bytearray(
        source.whole(SAMPLES / sample)[-8000:]
        if sample.endswith("collapsed")
        else source.whole(SAMPLES / sample)
    )
    numbers: list[tuple[int, int]] = [match.span() for match in re.finditer(rb"[0-9a-f]+", plain)]
    for _ in range(data.draw(st.integers(1, 4))):
        if bool(numbers) and data.draw(st.booleans()):
            low, high = data.draw(st.sampled_from(numbers))
            new = data.draw(
                st.sampled_from(
                    [b"", b"0", b"-1", b"ffffffffffffffff", b"9" * 30, b"18446744073709551615", b"1e9"]
                )
            )
            plain[low:high] = new
        else:
            at = data.draw(st.integers(0, len(plain)))
            plain[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    path = tmp_path / "changed"
    path.write_bytes(plain)
    READERS[sample].recognises(bytes(plain))
    outcome(READERS[sample], path)


@QUICK
@given(content=st.binary(max_size=400))
@pytest.mark.parametrize("sample", READERS)
def test_anything_else(sample: str, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "anything"
    path.write_bytes(content)
    READERS[sample].recognises(content)
    outcome(READERS[sample], path)


@pytest.mark.parametrize("sample", READERS)
def test_what_is_no_regular_file(sample: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        READERS[sample].read([tmp_path / "missing"])
    with pytest.raises(UserError, match="cannot be read"):
        READERS[sample].read([Path("/dev/zero")])


def test_compression_that_expands_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a kilobyte that stands for megabytes THEN reading stops at the limit, not at the memory's end."""
    monkeypatch.setattr(source, "MOST_STREAMED", 1 << 20)
    path = tmp_path / "bomb.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(packer.compress(b"a;b 1\n" * (4 << 20)) + packer.flush())
    monkeypatch.setattr(source, "PART", 1 << 18)
    with pytest.raises(UserError, match="more than 0 GiB"):
        collapsed.read([path])
    monkeypatch.setattr(source, "MOST_STREAMED", 8 << 20)
    path.write_bytes(packer_of(b"x" * (3 << 20)))
    with pytest.raises(UserError, match="longer than 1 MiB"):
        collapsed.read([path])
    with pytest.raises(UserError, match=r"has more than 2\.0 MiB, which need 512 times"):
        source.whole(path, 512)


def packer_of(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def test_many_blocks_are_counted_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a file that counts more blocks than rows are made THEN totals stay, and the profile says so."""
    from offheap.formats.imported import stack_tables

    monkeypatch.setattr(stack_tables, "MOST_ROWS", 100)
    path = tmp_path / "nmt"
    path.write_text(
        "Native Memory Tracking:\nTotal: reserved=9, committed=9\n"
        "-  Other (reserved=99999999, committed=99999999)\n   (malloc=99999999 #123456)\n"
    )
    profile = native_memory_tracking.read([path])
    assert len(profile.live) <= 100
    assert profile.live["size"].sum() == 99_999_999
    assert profile.series["live_blocks"].tolist() == [123_456]
    assert stack_tables.GROUPED in profile.lacks


def test_protobuf_s_own_lengths(tmp_path: Path) -> None:
    """GIVEN fields longer than the file, or nested without end THEN one error with the file's name."""
    for data in (
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a\x02\x08",
        b"\x32\x00" + b"\x12\x7f",
        struct.pack("<Q", 2**63),
    ):
        path = tmp_path / "p"
        path.write_bytes(data)
        assert isinstance(outcome(pprof, path), str)
