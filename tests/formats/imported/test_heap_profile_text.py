"""The text `heap profile:` of gperftools, where every block is counted, of Go, and of legacy pprof."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

import pytest

from harness import needs
from harness.native.compiler import compile_c
from harness.paths import HEAPS
from harness.recordings.imported_profiles import SAMPLES, check, held_by, last, stacks_of
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples import go_frames, heap_dumps, heap_text, pprof
from offheap.recording.model import Frame

GO = SAMPLES / "go-debug1.txt"
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


def by_function(profile: Profile) -> dict[str, list[float]]:
    """Live and allocated blocks and bytes by innermost function."""
    sums: dict[str, list[float]] = {}
    for row in profile.series:
        name = profile.frames[profile.stacks[row["stack"] - 1][0]].name
        columns = ("live_blocks", "live_bytes", "allocated_blocks", "allocated_bytes")
        its = [float(row[column]) for column in columns]
        sums[name] = [before + more for before, more in zip(sums.get(name, [0.0] * 4), its, strict=True)]
    return {name: its for name, its in sums.items() if any(its)}


def test_gos_text_has_the_figures_and_the_functions_of_its_protobuf() -> None:
    """GIVEN both files of one program, whose samples Go scaled in the second alone."""
    text, protobuf = check(heap_text.read([GO])), check(pprof.read([SAMPLES / "go.pb.gz"]))
    assert text.format == "pprof text"
    assert text.interval_bytes == 512
    ours, theirs = by_function(text), by_function(protobuf)
    assert ours.keys() == theirs.keys()
    for name, its in ours.items():
        assert its == pytest.approx(theirs[name], rel=0, abs=4), name  # Go cuts off to whole numbers
    assert ours["main.leak"][:2] == pytest.approx([50, 50 * 10_240])
    # 1,000 blocks of 64 bytes, of which one in 8.5 was sampled.
    taken = -math.expm1(-64 / 512)
    error = math.sqrt(1000 * (1 - taken) / taken)
    ((_, frames), *_), blocks = stacks_of(text, "main.leakLittle"), held_by(text, "main.leakLittle")[0]
    assert abs(blocks - 1000) < 3 * error
    assert [(frame.name, frame.kind, frame.line > 0) for frame in frames] == [
        ("main.leakLittle", "native", True),
        ("main.main", "native", True),
        ("runtime.main", "native", True),
    ]
    assert frames[0].file.endswith("heap.go")


def test_gos_functions_are_not_those_of_java() -> None:
    """runtime/pprof.WriteHeapProfile has the form of a Java method."""
    for profile in (heap_text.read([GO]), pprof.read([SAMPLES / "go.pb.gz"])):
        assert any(frame.name.startswith("runtime/pprof.") for frame in profile.frames)
        assert {frame.kind for frame in profile.frames} == {"native"}


@pytest.mark.parametrize(
    ("source", "interval"),
    [("heap/1024", 512), ("heap_v2/1024", 1024), ("heapz_v2/1024", 1024), ("heap/2", 0), ("heap_v2/1", 0)],
)
def test_the_interval_is_what_the_first_line_says(source: str, interval: int, tmp_path: Path) -> None:
    path = tmp_path / "a.heap"
    path.write_text(f"heap profile: 2: 200 [4: 800] @ {source}\n2: 200 [4: 800] @ 0x10 0x20\n")
    profile = check(heap_text.read([path]))
    assert profile.interval_bytes == interval
    weights = [1 / -math.expm1(-mean / interval) if interval else 1.0 for mean in (100, 200)]
    row = profile.series[0]
    assert [float(row["live_bytes"]), float(row["allocated_bytes"])] == pytest.approx(
        [200 * weights[0], 800 * weights[1]]
    )
    # Only gperftools' first line has the totals of what is not printed.
    text = (
        f"heap profile: 99999: 9999900 [99999: 9999900] @ {source}\n"
        + "2: 200 [4: 800] @ 0x10 0x20\n" * 40_000
    )
    assert len(text) > 1 << 20
    assert not stacks_lack(text, tmp_path)


def test_calls_of_a_comment() -> None:
    lines = (
        "#\t0x4c5d10\truntime/pprof.writeHeap+0xb0\t/go/src/pprof.go:653",
        "#\t0x4c5d10\tmain.(*T[go.shape.int]).f+0x2\t\t\t/a b/x.go:7",
        "#\t0x4c5d10\tmain.(*T[go.shape.int]).f+0x2\t\t\t/a b/x.go:7",
        "#\t0x4c5d33",
    )
    inner = Frame("runtime/pprof.writeHeap", "native", "", "/go/src/pprof.go", 653)
    outer = Frame("main.(*T[go.shape.int]).f", "native", "", "/a b/x.go", 7)
    calls = [call for line in lines if (call := go_frames.call(line))]
    assert go_frames.chains(calls) == [
        (0x4C5D10, (inner._replace(inlined=True), outer)),
        (0x4C5D10, (outer,)),
        (0x4C5D33, (Frame("0x4c5d33", "unknown"),)),
    ]
    assert not go_frames.call("# Alloc = 676616")
