"""The survivors beside the heap in use: what the rest may be, and when the two contradict each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.simulation import Churn, JavaProcess, Leak, every, object_stack
from offheap.analysis.java_heap.report import report
from offheap.analysis.java_heap.results import Books, JavaHeapReport
from offheap.analysis.java_heap.settled.last_collection import reading_after
from offheap.recording.model import G1, CollectionKind

SECONDS = 60.0
OF_THE_JVM = 2e6  # bytes
# Bytes that no rule explains: the program leaks 24 MB in the time.
UNKNOWN = 40e6


def judged(
    unsampled: float, *, age: float = SECONDS, flags: tuple[str, ...] = ("-XX:+UseG1GC",)
) -> JavaHeapReport:
    """A leak and garbage; `unsampled` bytes of the heap in use have no sample; `age` at the end."""
    process = JavaProcess(SECONDS, 5, every(7.0, "full", SECONDS), older=unsampled)
    process.add(object_stack("byte[]", "com.example.Cache.put"), Leak(20, 20_000))
    process.add(object_stack("java.lang.String", "com.example.Feed.read"), Churn(200, 2000, 4.0))
    recording = process.record(interval=65_536, age=age)
    found = report(replace(recording, info=replace(recording.info, jvm_flags=flags)))
    assert found
    return found


def books(unsampled: float, *, age: float = SECONDS, flags: tuple[str, ...] = ("-XX:+UseG1GC",)) -> Books:
    found = judged(unsampled, age=age, flags=flags).books
    assert found
    return found


def test_the_jvms_own_objects_are_no_contradiction() -> None:
    assert books(OF_THE_JVM).agrees


def test_a_recording_from_the_start_that_misses_objects_disagrees() -> None:
    found = books(UNKNOWN)
    assert not found.agrees
    assert "of the heap in use at least is at no sampled object" in found.why


def test_zgc_counts_garbage_that_it_has_yet_to_free() -> None:
    found = books(UNKNOWN, flags=("-XX:+UseZGC",))
    assert found.agrees
    assert "garbage beside objects that ZGC had yet to move" in found.why


def test_generational_zgc_counts_objects_that_are_too_young_to_be_judged() -> None:
    found = books(UNKNOWN, flags=("-XX:+UseZGC", "-XX:+ZGenerational"))
    assert found.agrees
    assert "the rest is too young to be judged" in found.why


def test_shenandoah_leaves_garbage_in_regions() -> None:
    """459M->170M with 73 MB live, where little was free for the objects that it moves."""
    found = books(UNKNOWN, flags=("-XX:+UseShenandoahGC",))
    assert found.agrees
    assert "garbage in regions that Shenandoah did not choose" in found.why


@pytest.mark.parametrize("kinds", [("concurrent", "young"), ("concurrent", "full")])
def test_g1_leaves_garbage_in_regions_after_a_cycle(kinds: tuple[CollectionKind, CollectionKind]) -> None:
    """The objects are dead from the cycle on; the mixed collections that free them come later."""
    ran: list[tuple[float, CollectionKind]] = [(10.0, "young"), (25.0, "concurrent")]
    process = JavaProcess(SECONDS, 5, [*ran, (40.0, kinds[0]), (50.0, kinds[1])], older=UNKNOWN)
    process.add(object_stack("byte[]", "com.example.Cache.put"), Leak(20, 20_000))
    recording = process.record(interval=65_536, age=SECONDS)
    assert recording.collections
    found = report(replace(recording, collections=replace(recording.collections, collector=G1)))
    assert found
    assert found.books
    assert found.books.agrees == (kinds[1] != "full")
    assert ("garbage in regions that G1 had yet to choose" in found.books.why) == found.books.agrees


def test_after_an_attach_the_rest_is_older() -> None:
    found = books(UNKNOWN, age=600.0)
    assert found.agrees
    assert "older than the recording" in found.why


@pytest.mark.parametrize("flags", [("-XX:+UseG1GC",), ("-XX:+UseZGC",)])
@pytest.mark.parametrize("age", [SECONDS, 600.0])
def test_an_estimate_above_the_heap_disagrees_with_every_collector(
    age: float, flags: tuple[str, ...]
) -> None:
    found = books(-8e6, age=age, flags=flags)
    assert not found.agrees
    assert "above the heap in use" in found.why


def test_the_heap_after_a_collection_is_not_that_after_the_one_before() -> None:
    process = JavaProcess(SECONDS, 5, [(20.0, "young"), (50.0, "young"), (50.02, "full")])
    process.add(object_stack("byte[]", "com.example.Cache.put"), Leak(20, 20_000))
    recording = process.record(interval=65_536, age=SECONDS)
    used = recording.heap.bytes.copy()
    used[1] = 500e6
    found = report(replace(recording, heap=replace(recording.heap, bytes=used)))
    assert found
    assert found.books
    assert found.books.heap_bytes == used[2]
    assert [one.heap_bytes for one in found.after_collections] == [used[0], used[2]]


@pytest.mark.parametrize(("times", "reading"), [([1.0, 2.0], 1), ([1.0, 1.95], 1), ([1.0, 1.95, 2.1], 2)])
@pytest.mark.parametrize("later", [[], [9.0]])
def test_which_reading_is_of_a_collection(times: list[float], reading: int, later: list[float]) -> None:
    """The clocks of the JVM and of the recorder may differ: a reading may seem to come before the end."""
    assert reading_after(np.array(times + later), 2.0) == reading


def test_an_estimate_far_above_the_heap_is_no_evidence_of_a_leak() -> None:
    """Objects that the collector frees stay followed: a leak of them is as likely an error of ours."""
    leaking = judged(OF_THE_JVM)
    assert leaking.suspects[0].verdict == "leak"
    found = judged(-20e6)
    assert found.books is None
    assert found.survivors.bytes.high == 0
    assert {one.verdict for one in found.suspects} == {"cannot tell yet"}
    assert "followed objects take more than the JVM counts in use" in found.undecided
