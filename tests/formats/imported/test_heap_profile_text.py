"""The text `heap profile:` of gperftools, where every block is counted, and of legacy pprof."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness import needs
from harness.native.compiler import compile_c
from harness.paths import HEAPS
from harness.recordings.imported_profiles import SAMPLES, check, held_by, last
from offheap.formats.imported.samples import heap_dumps, heap_text

UNPRINTED = "stacks that were not printed"


def stacks_lack(text: str, folder: Path) -> bool:
    """Whether the profile of this text says that the file lacks stacks."""
    path = folder / "a.heap"
    path.write_text(text)
    profile = check(heap_text.read([path]))
    told = any("a dump lacks stacks" in sentence for sentence in profile.lacks)
    assert told == any(frame.name == UNPRINTED for frame in profile.frames)
    return told


def test_gperftools_counts_every_block() -> None:
    profile = heap_text.read([SAMPLES / "gperftools.heap"])
    assert profile.interval_bytes == 0
    assert profile.format == "gperftools"
    assert sorted(last(profile).values()) == [(0.0, 0.0), (100.0, 100_000.0)]
    assert sorted(profile.series["allocated_bytes"].tolist()) == [6_400, 100_000]


def test_stacks_beyond_gperftools_buffer_have_a_stack_of_their_own(tmp_path: Path) -> None:
    """GIVEN a program whose call paths need more than 1 MiB THEN the totals are the program's own."""
    library = needs.shared_library("tcmalloc")
    flags = ("-fno-optimize-sibling-calls", "-fno-omit-frame-pointer")
    program = compile_c([HEAPS / "call_paths.c"], tmp_path / "call_paths", flags=flags)
    environment = {**os.environ, "LD_PRELOAD": library, "HEAPPROFILE": str(tmp_path / "dump")}
    subprocess.run([program], env=environment, capture_output=True, timeout=120, check=True)
    (path,) = tmp_path.glob("dump.*.heap")
    dump = heap_dumps.parse(path)
    assert dump.maps, "gperftools keeps the maps"
    profile = check(heap_text.read([path]))
    row = profile.process[-1]
    assert (row["live_blocks"], row["live_bytes"], row["allocated_bytes"]) == (8192, 819_200, 819_200)
    printed = len(dump.counts)
    assert held_by(profile, UNPRINTED) == (8192 - printed, 100 * (8192 - printed))
    assert 500 < printed < 8000
    assert any("a dump lacks stacks" in sentence for sentence in profile.lacks)


def test_what_is_lacking_is_the_difference_from_the_first_line(tmp_path: Path) -> None:
    head = "heap profile: {} @ heapprofile\n"
    stack = "     2:     1000 [     5:     3000] @ 0x10\n"
    assert not stacks_lack(head.format("2: 1000 [5: 3000]") + stack, tmp_path)
    # HEAP_PROFILE_MMAP adds stacks of mappings, which the totals do not have.
    assert not stacks_lack(head.format("1: 500 [4: 500]") + stack, tmp_path)
    # The number of allocations overflows at 2^31.
    assert not stacks_lack(head.format("2: 1000 [-2147483000: 3000]") + stack, tmp_path)
    # Stacks whose blocks were all freed come last.
    assert stacks_lack(head.format("2: 1000 [6: 3001]") + stack, tmp_path)
    assert stacks_lack(head.format("3: 1001 [6: 3001]") + stack, tmp_path)


def test_blocks_of_malloc_0_have_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.heap"
    path.write_text(
        "heap profile: 34: 1001 [34: 1001] @ heapprofile\n"
        "1: 1000 [1: 1000] @ 0x10\n3: 1 [3: 1] @ 0x20\n30: 0 [30: 0] @ 0x30\n"
    )
    profile = check(heap_text.read([path]))
    assert sorted(last(profile).values()) == [(1, 1000), (3, 1), (30, 0)]
    assert profile.process[-1]["live_blocks"] == 34
