"""Memory that a Java object frees when it is collected: the evidence of a recording's collections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from harness.simulation import Leak, Process, inflater, native_stack
from offheap.analysis.gate.gate import Limits, gate
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.verdicts.survival import passed
from offheap.recording.model import CollectionKind, Collections, Frame, OwnersOverTime, Recording

OWNED = inflater("com.example.Shop.serve", "com.example.Main.main")
UNOWNED = native_stack("keep_frame", "decode")
DURATION = 60.0
NONE: tuple[float, ...] = ()


def recorded(
    stack: Sequence[Frame], young: Sequence[float] | None, old: Sequence[float] = NONE, *, asked: bool = False
) -> Recording:
    """A leak of 1.4 MB/s in a JVM with collections at these times, and a reading every two seconds."""
    process = Process(DURATION, 7)
    process.add(stack, Leak(200, 7160))
    recording = process.record(interval=65_536)
    if young is None:
        return recording
    times = np.arange(0, DURATION, 2.0)
    counts = 3.0 + np.searchsorted(np.sort([*young, *old]), times, "right").astype(np.float64)
    gauges = {
        "collections": counts,
        "old-collections": 1.0 + np.searchsorted(sorted(old), times, "right").astype(np.float64),
    }
    held = np.full((len(times), 1), 1e6)
    owners = OwnersOverTime(times, ["malloc"], held, held[:, 0], gauges)
    return replace(recording, owners=owners, info=replace(recording.info, after_collection=asked))


def worst(recording: Recording) -> Suspect:
    return ranking(recording)[0]


def test_what_no_collection_could_have_freed_is_not_said_to_leak() -> None:
    recording = recorded(OWNED, NONE)
    suspect = worst(recording)
    assert (suspect.verdict, suspect.waits_for_gc) == ("growing", True)
    assert "no collection ran that could have freed it" in suspect.why
    assert "(--gc rules that out)" in suspect.why
    assert answer(ranking(recording)).endswith("a garbage collection might still free it.")
    (check,) = gate(recording, Limits()).checks
    assert (check.outcome, "a garbage collection might still free it" in check.why) == ("cannot tell", True)


def test_a_collection_before_most_was_born_shows_nothing() -> None:
    assert worst(recorded(OWNED, [3.0, 5.0])).verdict == "growing"


@pytest.mark.parametrize("when", [20.0, 40.0, 57.0])
def test_what_survived_young_collections_leaks_unless_the_old_generation_holds_it(when: float) -> None:
    suspect = worst(recorded(OWNED, [when - 5, when]))
    assert (suspect.verdict, suspect.waits_for_gc) == ("leak", True)
    assert (
        "survived 2 collections; a full collection might still free it (--gc rules that out)" in suspect.why
    )


def test_what_survived_a_collection_of_the_old_generation_waits_for_none() -> None:
    suspect = worst(recorded(OWNED, [10.0, 50.0], [30.0]))
    assert (suspect.verdict, suspect.waits_for_gc) == ("leak", False)
    assert suspect.why.endswith("it survived a collection of the whole heap")


def test_a_collection_that_was_asked_for_settles_it() -> None:
    suspect = worst(recorded(OWNED, NONE, asked=True))
    assert (suspect.verdict, suspect.waits_for_gc) == ("leak", False)
    assert suspect.why.endswith("it survived a full collection")


def test_where_nobody_counted_collections_the_doubt_is_said() -> None:
    suspect = worst(recorded(OWNED, None))
    assert (suspect.verdict, suspect.waits_for_gc) == ("leak", True)
    assert suspect.why.endswith("a collection might still free it (--gc rules that out)")
    assert answer(ranking(recorded(OWNED, None))).endswith("a garbage collection might still free it.")
    assert "collection" not in answer(ranking(recorded(OWNED, [20.0, 40.0])))


@pytest.mark.parametrize(("since", "verdict"), [(1.0, "leak"), (57.5, "growing"), (np.nan, "growing")])
def test_when_the_last_one_began_is_better_than_between_two_readings(since: float, verdict: str) -> None:
    """The recording has two readings, one at its start and one at its end."""
    recording = recorded(OWNED, [30.0])
    times = np.array([0.5, 58.0])
    gauges = {
        "collections": np.array([3.0, 4.0]),
        "old-collections": np.ones(2),
        "since-young-collection": np.array([np.nan, since]),
    }
    owners = replace(recording.owners, times=times, bytes=np.ones((2, 1)), rss=np.ones(2), gauges=gauges)
    assert worst(replace(recording, owners=owners)).verdict == verdict


def test_readings_that_failed_are_passed_over() -> None:
    recording = recorded(OWNED, [20.0, 40.0])
    gauges = {
        name: np.where(np.arange(30) % 2, values, np.nan) for name, values in recording.owners.gauges.items()
    }
    assert worst(replace(recording, owners=replace(recording.owners, gauges=gauges))).verdict == "leak"
    nothing = {name: np.full(30, np.nan) for name in gauges}
    unknown = worst(replace(recording, owners=replace(recording.owners, gauges=nothing)))
    assert "a collection might still free it (--gc rules that out)" in unknown.why


@pytest.mark.parametrize("young", [None, NONE, [30.0]])
def test_memory_that_no_object_owns_waits_for_none(young: Sequence[float] | None) -> None:
    suspect = worst(recorded(UNOWNED, young))
    assert (suspect.verdict, suspect.waits_for_gc) == ("leak", False)
    assert "collection" not in suspect.why


def g1(young: float, concurrent: Sequence[float], until: float = 60.0) -> Collections:
    """A young collection each so many seconds, and the pauses of cycles."""
    rows = [(float(time), "young") for time in np.arange(young, until, young)]
    rows = sorted([*rows, *((time, "concurrent") for time in concurrent)])
    begun = np.array([time for time, _ in rows])
    kinds = cast(tuple[CollectionKind, ...], tuple(kind for _, kind in rows))
    return Collections(0.0, kinds, begun, begun + 0.01, np.ones(len(rows), np.int64), "G1")


def met(ran: Collections) -> list[float]:
    """When what each pause of a cycle has met was born, at the latest."""
    found = passed(ran, np.inf)
    return [float(found[row]) for row, kind in enumerate(ran.kinds) if kind == "concurrent"]


def test_the_first_cycle_of_g1_may_have_begun_before_the_recording() -> None:
    """G1 marks what was there when it began; what becomes old meanwhile stays, live or not."""
    assert met(g1(2.0, [20.5, 24.5])) == [-np.inf, -np.inf]


def test_a_later_cycle_of_g1_began_after_the_one_before() -> None:
    before = [-np.inf, -np.inf]
    assert met(g1(2.0, [20.5, 24.5, 50.5, 54.5])) == pytest.approx([*before, 22.0 - 0.1, 26.0 - 0.1])


def test_pauses_of_g1_in_one_row_are_counted() -> None:
    ran = g1(2.0, [20.5, 50.5])
    two = replace(ran, counts=np.where([kind == "concurrent" for kind in ran.kinds], 2, 1))
    assert met(two) == pytest.approx([-np.inf, 22.0 - 0.1])
    assert met(ran) == [-np.inf, -np.inf], "one pause each: both may be of one cycle"


def test_a_cycle_that_tells_its_begin_is_met_by_what_was_born_before() -> None:
    ran = replace(g1(2.0, [20.5]), collector="generational ZGC")
    assert met(ran) == pytest.approx([20.5 - 0.1])


def test_of_an_unknown_collector_the_young_collection_before_counts() -> None:
    assert met(replace(g1(2.0, [20.5]), collector="")) == pytest.approx([20.0 - 0.1])
