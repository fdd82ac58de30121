"""Heap dumps in parts: their addresses, the maps of compiled code, a series of a process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.recordings.imported_profiles import SAMPLES, check
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


def test_the_map_beside_the_dumps_is_taken(tmp_path: Path) -> None:
    dump = tmp_path / "jeprof.7.0.f.heap"
    dump.write_text("heap_v2/1\n  t*: 1: 10 [0: 0]\n@ 0x1010\n  t*: 1: 10 [0: 0]\n\nMAPPED_LIBRARIES:\n")
    (tmp_path / "perf-7.map").write_text("1000 100 int com.example.Shop.open(int)\n")
    profile = check(heap_text.read([dump]))
    assert [frame.name for frame in profile.frames] == ["com.example.Shop.open"]
    assert any("perf-7.map" in sentence for sentence in profile.lacks)


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
