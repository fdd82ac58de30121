"""Live Java objects of async-profiler's JFR recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.recordings.imported_profiles import SAMPLES, check, held_by, stacks_of
from harness.recordings.jfr_files import Event, JavaObject, chunk
from offheap.analysis.java_heap.java_ranking import java_ranking
from offheap.formats.imported.jfr import recording
from offheap.formats.imported.jfr.java_objects import MOST_FOLLOWED
from offheap.formats.imported.recorded import write
from offheap.recording import load
from offheap.recording.model import JAVA, MALLOC

SAMPLE = SAMPLES / "async-profiler-live.jfr.gz"
KEPT = 400 * 20_016  # bytes, of arrays of 20,000 with their heads
MS = 10**6  # nanoseconds


def jfr(folder: Path, *chunks: bytes) -> Path:
    path = folder / "x.jfr"
    path.write_bytes(b"".join(chunks))
    return path


def test_estimates_hold_what_the_program_kept() -> None:
    """GIVEN 400 arrays that stay and 40,000 that go THEN those that stay are live, within the interval."""
    profile = check(recording.read([SAMPLE]))
    number, stack = next(stacks_of(profile, "Keep.keepOne"))
    assert [(frame.name, frame.kind) for frame in stack[:3]] == [
        ("byte[]", "class"),
        ("Keep.keepOne", "java"),
        ("Keep.main", "java"),
    ]
    row = profile.series[profile.series["stack"] == number][-1]
    assert abs(row["live_bytes"] - KEPT) < 2.6 * row["live_bytes_variance"] ** 0.5  # 99 %
    assert row["allocated_bytes"] >= row["live_bytes"]
    allocated = sum(
        float(profile.series[profile.series["stack"] == one]["allocated_bytes"].sum())
        for one, _ in stacks_of(profile, "Keep.drop")
    )
    assert allocated == pytest.approx(40_000 * 10_016, rel=0.05)
    heap = profile.java_heap
    assert heap is not None
    assert (heap.state, heap.interval_bytes, heap.most) == ("followed", 32 << 10, MOST_FOLLOWED)
    assert 1.0 < heap.collected < profile.process["time"][-1]
    assert profile.java_version.startswith("17.")
    assert profile.kinds.tolist() == [JAVA] * len(profile.kinds)
    assert recording.NO_NATIVE in profile.lacks


def test_the_java_side_of_every_report_has_them(tmp_path: Path) -> None:
    write(recording.read([SAMPLE]), tmp_path / "app.offheap", "x")
    loaded = load(tmp_path / "app.offheap")
    assert loaded.java is not None
    assert len(loaded.live) == 0
    ranked = java_ranking(loaded)
    assert (ranked[0].blamed.name, ranked[0].object_class) == ("Keep.keepOne", "byte[]")
    assert ranked.collections is not None


def test_blocks_and_objects_are_in_one_recording(tmp_path: Path) -> None:
    events = [Event(1 * MS, 0x1000, 100), Event(2 * MS, 0x2000, 50), Event(3 * MS, 0x2000)]
    objects = [JavaObject(5 * MS, 4096, 2, alive=True)]
    profile = check(recording.read([jfr(tmp_path, chunk(events, stacks=2, objects=objects))]))
    assert profile.process["live_bytes"][-1] == 100
    assert sorted(profile.kinds[profile.live["stack"].astype(int) - 1].tolist()) == [MALLOC, JAVA]
    assert held_by(profile, "f1")[1] == 100
    assert held_by(profile, "f2")[1] == pytest.approx(4096 / -np.expm1(-4096 / 524_287))
    assert recording.NO_NATIVE not in profile.lacks
    write(profile, tmp_path / "both.offheap", "x")
    loaded = load(tmp_path / "both.offheap")
    assert loaded.java is not None
    assert (len(loaded.live), len(loaded.java.live)) == (1, 1)


def collected(folder: Path, *objects: JavaObject) -> float:
    heap = recording.read([jfr(folder, chunk([], objects=objects))]).java_heap
    assert heap is not None
    assert heap.collections == (1 if heap.collected else 0)
    return heap.collected


def test_when_a_collection_ran_follows_from_what_is_gone(tmp_path: Path) -> None:
    """Three objects that went, then one that is live: the collection began after the first of the three."""
    gone = [JavaObject(at * MS, 512) for at in (10, 20, 30)]
    alive = JavaObject(40 * MS, 512, alive=True)
    assert collected(tmp_path, *gone, alive) == pytest.approx(0.010)
    # Fewer may have met another thread at the table; later ones wait for a collection, or found it full.
    assert collected(tmp_path, *gone[:2], alive) == 0
    assert collected(tmp_path, JavaObject(5 * MS, 512, alive=True), *gone) == 0
    # Live ones do not count as gone, though all four are equal.
    assert collected(tmp_path, *(one._replace(alive=True) for one in gone), alive) == 0


def test_without_a_collection_nothing_is_known_to_be_live(tmp_path: Path) -> None:
    profile = recording.read([jfr(tmp_path, chunk([], objects=[JavaObject(MS, 512, alive=True)]))])
    assert recording.NO_COLLECTION in profile.lacks
    write(profile, tmp_path / "app.offheap", "x")
    assert {one.verdict for one in java_ranking(load(tmp_path / "app.offheap"))} == {"cannot tell yet"}


def test_the_last_profile_of_several_says_what_is_live(tmp_path: Path) -> None:
    """GIVEN a profiler that stopped and began anew THEN what its first table had is allocated, not live."""
    first = chunk([], objects=[JavaObject(MS, 512, alive=True)])
    later = chunk([], stacks=2, start=1_700_000_002 * 10**9, objects=[JavaObject(MS, 1024, 2, alive=True)])
    profile = check(recording.read([jfr(tmp_path, first, later)]))
    assert profile.live["size"].tolist() == [1024]
    assert held_by(profile, "f1") == (0, 0)
    assert (profile.series["allocated_bytes"] > 0).all()


def test_allocations_alone_are_no_live_objects(tmp_path: Path) -> None:
    path = jfr(tmp_path, chunk([Event(MS, 0x1000, 100)], objects=[JavaObject(MS, 512)]))
    profile = check(recording.read([path]))
    assert profile.java_heap is None
    assert held_by(profile, "f1") == (1, 100)
    assert any("1 samples of Java objects are not imported" in sentence for sentence in profile.lacks)
