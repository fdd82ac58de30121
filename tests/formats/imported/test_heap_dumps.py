"""Heap dumps in parts: their addresses, the maps of compiled code, a series of a process."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.recordings.imported_profiles import SAMPLES, check, last, outcome
from offheap.errors import UserError
from offheap.formats.imported.samples import heap_dumps, heap_text
from offheap.formats.imported.samples.address_stacks import MOST_FRAMES, NotHexadecimal, address_stacks

addresses = st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(addresses, max_size=30), max_size=20))
def test_addresses_are_those_of_the_words(stacks: list[list[int]]) -> None:
    found = address_stacks([" ".join(map(hex, stack)) for stack in stacks])
    assert found.depths.tolist() == list(map(len, stacks))
    assert found.addresses[found.which].tolist() == [one for stack in stacks for one in stack]
    assert len(np.unique(found.addresses)) == len(found.addresses)


@pytest.mark.parametrize("word", ["0x", "1f", "0xG", "0x1F", "0x00000000000000001", "0xé", "x0", "0", "0x1,"])
def test_another_word_is_told_by_its_stack(word: str) -> None:
    with pytest.raises(NotHexadecimal) as told:
        address_stacks(["0x10 0x20", "", f"0x30 {word} 0x40", "0xzz"])
    assert told.value.stack == 2


def test_a_deep_stack_keeps_its_innermost_frames() -> None:
    found = address_stacks(["0x1", " ".join(map(hex, range(MOST_FRAMES + 5))), "0x2 0x3"])
    assert found.depths.tolist() == [1, MOST_FRAMES, 2]
    assert found.addresses[found.which][-3:].tolist() == [MOST_FRAMES - 1, 2, 3]


def test_both_ways_of_reading_give_the_same(tmp_path: Path) -> None:
    """A line that jemalloc does not write makes the reader go line by line."""
    whole = heap_dumps.parse(SAMPLES / "jemalloc.heap")
    other = tmp_path / "a.heap"
    other.write_text((SAMPLES / "jemalloc.heap").read_text().replace("\n@", "\n\n@", 3))
    by_line = heap_dumps.parse(other)
    assert (whole.counts == by_line.counts).all()
    assert (whole.stacks.which == by_line.stacks.which).all()
    assert whole.maps
    assert [line for line in by_line.maps if line] == [line for line in whole.maps if line]


LISTED = """--- symbol
binary=com.example.Shop
0x0000000000001000 zcalloc
0x0000000000001010 com.example.Shop.pack--java.util.zip.Inflater.<init>
0x0000000000001020 malloc_default
---
--- heap
heap_v2/{interval}
  t*: 4: 40 [0: 0]
@ 0x1021 0x1000 0x1011
  t*: 3: 30 [9: 90]
@ 0x1021 0x2000
  t*: 0: 10 [0: 10]
"""


def test_names_that_a_file_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.heap"
    path.write_text(LISTED.format(interval=0))
    assert heap_text.recognises(path.read_bytes())
    profile = check(heap_text.read([path]))
    stacks = [[profile.frames[place] for place in places] for places in profile.stacks]
    names = [[frame.name for frame in stack] for stack in stacks]
    assert names[0] == [
        *("malloc_default", "zcalloc", "com.example.Shop.pack", "java.util.zip.Inflater.<init>")
    ]
    assert [(frame.kind, frame.inlined) for frame in stacks[0][2:]] == [("java", True), ("java", False)]
    assert names[1] == ["malloc_default", "0x2000"]
    # A part of a block is one: bytes without a block would be held by nothing.
    assert sorted(last(profile).values()) == [(1, 10), (3, 30)]
    assert profile.format == "jemalloc"
    # The profiler's own frames are left out.
    path.write_text(LISTED.format(interval=4096).replace("0: 10 [0: 10]", "1: 10 [0: 0]"))
    profile = check(heap_text.read([path]))
    assert "malloc_default" not in {profile.frames[places[0]].name for places in profile.stacks}


def test_a_file_with_names_is_an_error_or_a_part_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.heap"
    text = LISTED.format(interval=0)
    for end in range(len(text)):
        path.write_text(text[:end])
        outcome(heap_text, path)
    path.write_text(text.replace("0x0000000000001020", "1020"))
    with pytest.raises(UserError, match="line 5: no `0xADDRESS FUNCTION`"):
        heap_text.read([path])
    path.write_text(text.replace("3: 30", "3:"))
    with pytest.raises(UserError, match="line 11: "):
        heap_text.read([path])


def test_jeprofs_own_file_with_names(tmp_path: Path) -> None:
    """jeprof appends the profile as it was fetched from a server; of a file it writes the symbols alone."""
    jeprof = needs.program("jeprof", "apt-get install libjemalloc-dev")
    dump, path = SAMPLES / "jemalloc.heap", tmp_path / "raw.heap"
    done = subprocess.run([jeprof, "--raw", "/bin/true", str(dump)], capture_output=True, timeout=60)
    assert done.stdout.endswith(b"---\n--- heap\n")
    path.write_bytes(done.stdout + dump.read_bytes())
    whole, raw = heap_text.read([dump]), check(heap_text.read([path]))
    assert raw.interval_bytes == 4096
    assert raw.process["live_bytes"].tolist() == pytest.approx(whole.process["live_bytes"].tolist())
    # jeprof names what it finds symbols of, and writes the address of other frames.  Without debug symbols a
    # name has the version of its library, and its address where jeprof finds it twice.
    names = {line.decode().partition(" ")[2] for line in done.stdout.splitlines() if line.startswith(b"0x")}
    version = re.compile(r"@@?[A-Z_]+[\d.]*(<[0-9a-f]+>)?$")
    named = {version.sub("", name) for name in names if not name.startswith("0x")}
    assert named
    assert named <= {frame.name for frame in raw.frames}


def test_the_map_beside_the_dumps_is_taken(tmp_path: Path) -> None:
    dump = tmp_path / "jeprof.7.0.f.heap"
    dump.write_text("heap_v2/1\n  t*: 1: 10 [0: 0]\n@ 0x1010\n  t*: 1: 10 [0: 0]\n\nMAPPED_LIBRARIES:\n")
    (tmp_path / "perf-7.map").write_text("1000 100 int com.example.Shop.open(int)\n")
    profile = check(heap_text.read([dump]))
    assert [frame.name for frame in profile.frames] == ["com.example.Shop.open"]
    assert any("perf-7.map" in sentence for sentence in profile.lacks)


@pytest.fixture
def public_map() -> Iterator[Path]:
    """/tmp/perf-PID.map of a PID that no process has: above the kernel's own limit."""
    path = Path(f"/tmp/perf-{(1 << 22) + os.getpid()}.map")
    path.write_text("1000 100 int com.example.Shop.open(int)\n")
    yield path
    path.unlink(missing_ok=True)


def named_by(public: Path, folder: Path) -> bool:
    """Whether the file in /tmp names the method of a dump that was written 100 s ago."""
    pid = public.stem.removeprefix("perf-")
    dump = folder / f"jeprof.{pid}.0.f.heap"
    dump.write_text("heap_v2/1\n  t*: 1: 10 [0: 0]\n@ 0x1010\n  t*: 1: 10 [0: 0]\n\nMAPPED_LIBRARIES:\n")
    os.utime(dump, (1.7e9, 1.7e9))
    (frame,) = heap_text.read([dump]).frames
    assert frame.name in ("com.example.Shop.open", "0x1010")
    return frame.name == "com.example.Shop.open"


def test_the_map_in_tmp_is_taken_if_it_is_newer_than_the_dumps(public_map: Path, tmp_path: Path) -> None:
    for age, taken in ((0, True), (-1, True), (1, False)):
        os.utime(public_map, (1.7e9 - age, 1.7e9 - age))
        assert named_by(public_map, tmp_path) == taken, age


def test_the_map_in_tmp_is_no_link(public_map: Path, tmp_path: Path) -> None:
    public_map.rename(tmp_path / "elsewhere")
    public_map.symlink_to(tmp_path / "elsewhere")
    assert not named_by(public_map, tmp_path)


def test_the_map_in_tmp_is_of_this_user_or_root(public_map: Path, tmp_path: Path) -> None:
    needs.root("to give a file to another user")
    assert named_by(public_map, tmp_path)
    os.chown(public_map, 65534, 65534)
    assert not named_by(public_map, tmp_path)


def test_the_dump_at_the_exit_is_the_last(tmp_path: Path) -> None:
    for number, kind in enumerate(("i0", "i1", "f")):
        dump = tmp_path / f"jeprof.7.{number}.{kind}.heap"
        size = 100 * (number + 1)
        dump.write_text(f"heap_v2/1\n@ 0x10\n  t*: 1: {size} [0: 0]\n\nMAPPED_LIBRARIES:\n")
        os.utime(dump, (1.7e9 + number * 5, 1.7e9 + number * 5))
    profile = heap_text.read(sorted(tmp_path.iterdir(), reverse=True))
    assert profile.process["time"].tolist() == [0, 5, 10]
    assert profile.process["live_bytes"].tolist() == pytest.approx([100, 200, 300])
    other = tmp_path / "jeprof.8.0.i0.heap"
    other.write_text("heap_v2/1\n@ 0x10\n  t*: 1: 9 [0: 0]\n\nMAPPED_LIBRARIES:\n")
    with pytest.raises(UserError, match="of 2 processes: PID 7, 8"):
        heap_text.read(list(tmp_path.iterdir()))
