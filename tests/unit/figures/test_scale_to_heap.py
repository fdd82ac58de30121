"""--scale-to-heap: every live figure of the Java heap times heap in use over estimate, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.recordings.java_beside_native import shop
from harness.simulation import Churn, JavaProcess, Leak, every, object_stack
from offheap.analysis.java_heap.report import report
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.java_heap.scaled import scaled
from offheap.analysis.statistics.estimate import Estimate
from offheap.cli.java_heap import java_heap
from offheap.errors import UserError
from offheap.recording.model import Recording

SECONDS = 60.0


def attached(older: float, heap_told: bool = True) -> Recording:
    """A leak and garbage, in a heap with bytes that are older than the recording."""
    process = JavaProcess(SECONDS, 5, every(7.0, "full", SECONDS), older=older)
    process.add(object_stack("byte[]", "com.example.Cache.put"), Leak(20, 20_000))
    process.add(object_stack("java.lang.String", "com.example.Feed.read"), Churn(200, 2000, 4.0))
    return process.record(interval=65_536, heap_told=heap_told)


def judged(recording: Recording) -> JavaHeapReport:
    found = report(recording)
    assert found
    return found


def assert_times(scaled_one: Estimate, plain: Estimate, factor: float) -> None:
    for bound in ("low", "estimate", "high"):
        assert getattr(scaled_one, bound) == pytest.approx(getattr(plain, bound) * factor)


@pytest.mark.parametrize("recording", [attached(40e6), attached(0.0), shop()], ids=["older", "none", "shop"])
def test_sites_and_classes_sum_to_the_heap_in_use(recording: Recording) -> None:
    plain = judged(recording)
    found = scaled(plain)
    assert plain.books
    assert found.scaled == pytest.approx(plain.books.heap_bytes / plain.survivors.bytes.estimate)
    assert found.survivors.bytes.estimate == pytest.approx(plain.books.heap_bytes)
    sites = [one.site.live_bytes.estimate for one in found.suspects]
    assert len(sites) > 1
    assert sum(sites) == pytest.approx(plain.books.heap_bytes)
    assert sum(one.live_bytes.estimate for one in found.classes) == pytest.approx(plain.books.heap_bytes)


def test_intervals_and_numbers_of_objects_scale_alike() -> None:
    plain = judged(attached(40e6))
    found = scaled(plain)
    factor = found.scaled
    assert factor
    assert factor > 1.5
    for one, before in zip(found.suspects, plain.suspects, strict=True):
        assert_times(one.site.live_bytes, before.site.live_bytes, factor)
        assert_times(one.site.live_blocks, before.site.live_blocks, factor)
    for of_class, before_class in zip(found.classes, plain.classes, strict=True):
        assert_times(of_class.live_bytes, before_class.live_bytes, factor)
        assert_times(of_class.live_objects, before_class.live_objects, factor)
    assert_times(found.survivors.bytes, plain.survivors.bytes, factor)
    assert_times(found.survivors.objects, plain.survivors.objects, factor)
    for after, before_after in zip(found.after_collections, plain.after_collections, strict=True):
        assert_times(after.live_bytes, before_after.live_bytes, factor)


def test_growth_verdicts_and_younger_objects_stay_as_estimated() -> None:
    plain = judged(attached(40e6))
    found = scaled(plain)
    assert found.uncollected == plain.uncollected
    assert found.books == plain.books
    for one, before in zip(found.suspects, plain.suspects, strict=True):
        assert one.verdict == before.verdict
        assert one.growth_bytes_per_second == before.growth_bytes_per_second
        assert one.site.allocated_bytes == before.site.allocated_bytes


@pytest.mark.parametrize("older", [0.0, 100e6])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("flags", [("-XX:+UseZGC",), ("-XX:+UseSerialGC",)])
def test_a_heap_that_may_be_mostly_garbage_is_no_scale(
    older: float, asked: bool, flags: tuple[str, ...]
) -> None:
    recording = attached(older)
    recording = replace(recording, info=replace(recording.info, jvm_flags=flags, after_collection=asked))
    if older and not asked and flags == ("-XX:+UseZGC",):
        with pytest.raises(UserError, match="may be garbage beside objects that ZGC had yet to move"):
            java_heap(recording, scale=True)
    else:
        found = java_heap(recording, scale=True)
        assert found
        assert found.scaled


def test_a_heap_that_is_not_known_is_no_scale() -> None:
    recording = attached(0.0, heap_told=False)
    plain = judged(recording)
    assert scaled(plain) is plain
    with pytest.raises(UserError, match="--scale-to-heap"):
        java_heap(recording, scale=True)
