"""Generational ZGC: only a collection that met old objects settles what it met."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.simulation import JavaProcess, every, object_stack
from harness.simulation import Leak as Kept
from offheap.analysis.java_heap.report import report
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.java_heap.settled import last_collection
from offheap.analysis.verdicts.promotion import keeps_young_garbage, of_promoted
from offheap.recording.model import CollectionKind, Collections, Recording

YOUNG_SECONDS = 2.0
SECONDS = 60.0
GENERATIONAL = ("-XX:+UseZGC", "-XX:+ZGenerational")


def ran(young: int, last: CollectionKind, counts: int = 1) -> Collections:
    """So many young collections, one each two seconds, and another one after them."""
    begun = YOUNG_SECONDS * np.arange(1.0, young + 2)
    kind: CollectionKind = "young"
    return Collections(0.0, (*[kind] * young, last), begun, begun + 0.1, np.array([*[counts] * young, 1]))


def test_a_full_one_promotes_all_before_it() -> None:
    found = of_promoted(ran(3, "full"), causes_known=True)
    assert found.kinds == ("full",)
    assert found.begun.tolist() == [8.0]


def test_before_another_one_an_object_survives_fifteen_young_ones() -> None:
    known = ran(20, "concurrent")
    found = of_promoted(known, causes_known=True)
    assert found.kinds == ("concurrent",)
    assert found.begun.tolist() == [known.begun[20 - 15]]
    assert found.ended.tolist() == [known.ended[20]]


@pytest.mark.parametrize(("young", "last"), [(0, "concurrent"), (14, "concurrent"), (40, "young")])
def test_fewer_young_ones_promote_no_object_for_sure(young: int, last: CollectionKind) -> None:
    assert of_promoted(ran(young, last), causes_known=True).kinds == ()


def test_without_causes_a_full_one_is_like_another() -> None:
    assert of_promoted(ran(3, "full"), causes_known=False).kinds == ()
    assert of_promoted(ran(15, "full"), causes_known=False).begun.tolist() == [YOUNG_SECONDS]


def test_a_row_of_several_collections_reaches_no_further_back_than_its_last() -> None:
    """Rows of 4 each: the last one's time is that of the fourth; so 13 are behind the fourth row's time."""
    found = of_promoted(ran(6, "concurrent", counts=4), causes_known=True)
    assert found.begun.tolist() == [YOUNG_SECONDS * 2]


@pytest.mark.parametrize(
    ("version", "flags", "expected"),
    [
        ("17.0.9", ("-XX:+UseZGC",), False),
        ("21.0.2", ("-XX:+UseZGC",), False),
        ("21.0.2", GENERATIONAL, True),
        ("23", ("-XX:+UseZGC", "-XX:-ZGenerational"), False),
        ("25.0.2", ("-XX:+UseZGC",), True),
        ("25.0.2", ("-XX:+UseG1GC",), False),
        ("", ("-XX:+UseZGC",), False),
        ("27-ea", ("-XX:+UseZGC",), True),
        ("25.0.2", ("-XX:+UseZGC", "-XX:-ZGenerational"), True),
    ],
)
def test_which_jvm_runs_it(version: str, flags: tuple[str, ...], expected: bool) -> None:
    assert keeps_young_garbage(of_jvm(version, flags)) is expected


def test_variables_name_the_collector_too() -> None:
    recording = of_jvm("25.0.2", ())
    tool = replace(recording.info, properties={"java.tool.options": "-Xmx1g -XX:+UseZGC"})
    assert not keeps_young_garbage(recording)
    assert keeps_young_garbage(replace(recording, info=tool))


@pytest.mark.parametrize(("collector", "expected"), [("generational ZGC", True), ("G1", False)])
def test_the_jvms_counters_know_better_than_its_options(collector: str, expected: bool) -> None:
    flags = () if expected else ("-XX:+UseZGC",)
    known = replace(ran(1, "full"), collector=collector)
    assert keeps_young_garbage(replace(of_jvm("25", flags), collections=known)) is expected


def of_jvm(version: str, flags: tuple[str, ...]) -> Recording:
    recording = recorded("young")
    return replace(recording, info=replace(recording.info, java_version=version, jvm_flags=flags))


def recorded(kind: CollectionKind) -> Recording:
    """A leak, with one collection of this kind every seven seconds."""
    process = JavaProcess(SECONDS, 5, every(7.0, kind, SECONDS), older=2e6)
    process.add(object_stack("byte[]", "com.example.Cache.put"), Kept(20, 20_000))
    return process.record(interval=65_536)


def judged(kind: CollectionKind) -> JavaHeapReport:
    recording = recorded(kind)
    found = report(replace(recording, info=replace(recording.info, jvm_flags=GENERATIONAL)))
    assert found
    return found


@pytest.mark.parametrize("kind", ["young", "concurrent"])
def test_followed_objects_that_are_not_old_are_not_judged(kind: CollectionKind) -> None:
    found = judged(kind)
    assert "generational ZGC keeps them until they are old" in found.undecided
    assert "--gc" in found.undecided
    assert found.survivors.bytes.high == 0
    assert {one.verdict for one in found.suspects} == {"cannot tell yet"}


def test_a_sweep_before_the_end_of_a_collection_has_not_seen_what_it_freed() -> None:
    recording = recorded("full")
    heap = recording.info.java_heap
    assert heap
    assert last_collection.ran(recording).last == pytest.approx(56.0 - 0.1)
    early = replace(recording, info=replace(recording.info, java_heap=replace(heap, swept=56.05)))
    assert last_collection.ran(early).last == pytest.approx(49.0 - 0.1)


def test_counted_collections_that_settle_nothing_leave_nothing_to_the_probes_count() -> None:
    """The probe counts pauses too: the first cycle of ZGC has only begun to mark."""
    recording = recorded("full")
    heap = recording.info.java_heap
    assert heap
    none = Collections(0.0, (), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    pause = replace(heap, collections=1, collected=28.0, swept=28.01)
    counted = replace(recording, collections=none, info=replace(recording.info, java_heap=pause))
    assert len(last_collection.ran(counted).until) == 0


def test_collections_that_promote_settle_it() -> None:
    found = judged("full")
    assert not found.undecided
    assert found.suspects[0].verdict == "leak"
