"""jemalloc's settings, the names of its dumps, and the perf maps of a JVM put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import needs
from offheap.errors import UserError
from offheap.jemalloc import allocator, dumps, perf_maps


def test_settings_are_in_powers_of_two(tmp_path: Path) -> None:
    text = allocator.settings(tmp_path, 512 << 10, 1 << 30, "narenas:4")
    assert text.startswith("narenas:4,prof:true,")  # of two equal settings the last counts
    assert "lg_prof_sample:19" in text
    assert "lg_prof_interval:30" in text
    assert text.endswith(f"prof_prefix:{tmp_path}/jeprof")
    with pytest.raises(UserError, match="comma"):
        allocator.settings(Path("/a,b"), 1, 1)
    sizes = {1: 1, 3: 4, 500_000: 1 << 19, 700_000: 1 << 19, 1 << 62: 1 << 62, (1 << 63) - 1: 1 << 62}
    assert {size: allocator.power_of_two(size) for size in sizes} == sizes


def test_a_library_is_tried(tmp_path: Path) -> None:
    needs.shared_library("jemalloc")
    assert "jemalloc" in allocator.find()
    with pytest.raises(UserError, match="is not a file") as told:
        allocator.find(tmp_path / "libjemalloc.so.2")
    assert "libjemalloc2" in str(told.value)
    other = tmp_path / "libjemalloc.so.2"
    other.write_bytes(b"no library")
    with pytest.raises(UserError, match="no jemalloc that can be preloaded"):
        allocator.find(other)
    assert allocator.preload("/x/j.so", "/a.so /x/j.so:/b.so") == "/x/j.so:/a.so:/b.so"


def test_dumps_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("jeprof.7.10.f.heap", "jeprof.7.2.i2.heap", "jeprof.8.0.u0.heap", "other.7.1.i1.heap", "x"):
        (tmp_path / name).touch()
    found = dumps.series(tmp_path)
    assert {pid: [path.name for path in its] for pid, its in found.items()} == {
        7: ["jeprof.7.2.i2.heap", "jeprof.7.10.f.heap"],
        8: ["jeprof.8.0.u0.heap"],
    }
    assert dumps.next_name(tmp_path, 7).name == "jeprof.7.11.m11.heap"
    assert dumps.next_name(tmp_path, 9).name == "jeprof.9.0.m0.heap"


def test_a_newer_map_leaves_what_it_does_not_have() -> None:
    old = b"1000 100 freed\n2000 100 recompiled\n0x3000 0x10 before\nno line\n"
    new = b"0x2080 0x100 newer\n0x0000000000003010 10 behind\n"
    assert perf_maps.merged(old, new).splitlines() == [
        b"1000 100 freed",
        b"0x2080 0x100 newer",
        b"0x3000 0x10 before",
        b"0x0000000000003010 10 behind",
    ]
    assert perf_maps.merged(b"", b"") == b""
