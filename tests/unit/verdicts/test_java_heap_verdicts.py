"""The verdicts on Java objects of known behaviour, under collectors of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness.simulation import (
    Behaviour,
    Cache,
    Churn,
    JavaProcess,
    Leak,
    Sawtooth,
    WarmUp,
    every,
    object_stack,
)
from offheap.analysis.gate.gate import Limits, gate
from offheap.analysis.java_heap.java_ranking import java_ranking
from offheap.analysis.java_heap.report import report
from offheap.analysis.leaks.conclusion import conclude
from offheap.analysis.leaks.results import Suspect
from offheap.recording.model import CollectionKind, Recording

RUNS = 20
HEALTHY_RUNS = 10  # of 45 programs each
SIZE, RATE = 20_000.0, 10.0  # 200 KB/s
SUBJECT = object_stack("byte[]", "com.example.Cache.put", "com.example.Main.handle")
OTHERS = object_stack("java.lang.String", "java.util.ArrayList.add", "com.example.Main.parse")

Ran = list[tuple[float, CollectionKind]]


def young(duration: float, seed: int) -> Ran:
    """A young collection every few seconds."""
    return every(3.0, "young", duration, np.random.default_rng((seed, 7)).uniform(1.0, 4.0))


def whole(kind: CollectionKind, period: float, duration: float, seed: int) -> Ran:
    """The same, and one of the whole heap at this period."""
    first = np.random.default_rng((seed, 8)).uniform(period / 2, period)
    return young(duration, seed) + every(period, kind, duration, first)


def asked_for(duration: float, seed: int) -> Ran:
    """Young ones, and at the end the full one that --gc asks for."""
    return [*young(duration, seed), (duration - 0.3, "full")]


COLLECTORS: dict[str, Callable[[float, int], Ran]] = {
    "full": lambda duration, seed: whole("full", 30.0, duration, seed),
    "concurrent": lambda duration, seed: whole("concurrent", 30.0, duration, seed),
    "seldom": lambda duration, seed: every(35.0, "full", duration, 20.0 + seed % 10),
    "asked for": asked_for,
    "only asked for": lambda duration, seed: [(duration - 0.3, "full")],
}


def recorded(
    *behaviours: Behaviour, ran: Ran, duration: float, seed: int, kinds_known: bool = True
) -> Recording:
    process = JavaProcess(duration, seed, ran)
    process.add(SUBJECT, *behaviours)
    process.add(OTHERS, Churn(200, 2000, 0.01))
    return process.record(interval=65_536, kinds_known=kinds_known)


def subject(recording: Recording) -> Suspect:
    return next(suspect for suspect in java_ranking(recording) if suspect.object_class == "byte[]")


@pytest.mark.parametrize("collector", COLLECTORS)
@pytest.mark.parametrize("garbage", [False, True])
def test_a_static_map_that_grows_is_a_leak(collector: str, garbage: bool) -> None:
    """With garbage, one object in eleven stays of those that the line allocates."""
    verdicts: Counter[str] = Counter()
    covered = 0
    for seed in range(RUNS):
        behaviours = (Leak(RATE, SIZE), Churn(100, SIZE, 0.01)) if garbage else (Leak(RATE, SIZE),)
        found = subject(recorded(*behaviours, ran=COLLECTORS[collector](240, seed), duration=240, seed=seed))
        verdicts[found.verdict] += 1
        growth = found.growth_bytes_per_second
        covered += growth.low <= RATE * SIZE <= growth.high
        assert found.verdict in ("leak", "growing"), (seed, found.why)
        assert found.site.kind == "java"
        assert found.blamed.name == "com.example.Cache.put"
    assert verdicts["leak"] >= 0.9 * RUNS, verdicts
    assert covered >= 0.85 * RUNS


HEALTHY: dict[str, Callable[[], tuple[Behaviour, ...]]] = {
    "a cache, full after 60 s": lambda: (Cache(RATE, SIZE, 600, "first"),),
    "one that replaces any entry": lambda: (Cache(RATE, SIZE, 600),),
    "sessions of 20 s": lambda: (Churn(50, SIZE, 20.0),),
    "sessions of a minute": lambda: (Churn(50, SIZE, 60.0),),
    "a batch every 20 s": lambda: (Sawtooth(50, SIZE, 20.0),),
    "a batch every 50 s": lambda: (Sawtooth(50, SIZE, 50.0),),
    "a warm-up": lambda: (WarmUp(2000, SIZE, 15.0),),
    "garbage": lambda: (Churn(500, SIZE, 0.01),),
    "a warm-up beside sessions": lambda: (WarmUp(1000, SIZE, 10.0), Churn(50, SIZE, 10.0)),
}


@pytest.mark.parametrize("collector", COLLECTORS)
@pytest.mark.parametrize("behaviour", HEALTHY)
def test_what_the_program_drops_is_no_leak(behaviour: str, collector: str) -> None:
    for seed in range(HEALTHY_RUNS):
        ran = COLLECTORS[collector](240, seed)
        found = subject(recorded(*HEALTHY[behaviour](), ran=ran, duration=240, seed=seed))
        assert found.verdict != "leak", (seed, found.confidence, found.why)


def test_garbage_that_waits_for_a_collection_of_the_whole_heap_is_no_leak() -> None:
    """Objects survive young collections, then the program drops them: young ones do not free them."""
    for seed in range(RUNS):
        early: CollectionKind = "full"
        for ran in (young(120, seed), [*young(120, seed), (30.0, early)], [*young(120, seed), (60.0, early)]):
            found = subject(recorded(Churn(50, SIZE, 10.0), ran=ran, duration=120, seed=seed))
            assert found.verdict != "leak", (seed, found.why)


def test_what_survives_young_collections_alone_may_be_garbage() -> None:
    for seed in range(RUNS):
        found = subject(recorded(Leak(RATE, SIZE), ran=young(120, seed), duration=120, seed=seed))
        assert found.verdict == "growing"
        assert found.waits_for_gc
        assert "survived young collections, and may be garbage that waits" in found.why
        assert "--java-heap --gc asks for a collection of the whole heap" in found.next


def test_growth_that_may_be_garbage_does_not_fail_the_gate() -> None:
    limits = Limits(max_java_growth=50e3)
    for seed in range(RUNS):
        outcomes = {}
        for name, ran in (("young", young(120, seed)), ("asked for", asked_for(120, seed))):
            for behaviour in (Churn(50, SIZE, 20.0), Leak(RATE, SIZE)):
                recording = recorded(behaviour, ran=ran, duration=120, seed=seed)
                (check,) = gate(recording, limits).checks
                outcomes[name, type(behaviour)] = check.outcome
                if name == "young":
                    assert "a garbage collection might still free it (jcmd PID GC.run" in check.why
        assert outcomes["young", Churn] == outcomes["young", Leak] == "cannot tell"
        assert outcomes["asked for", Churn] != "failed"
        assert outcomes["asked for", Leak] == "failed", seed


@pytest.mark.parametrize("behaviour", HEALTHY)
def test_an_early_collection_of_the_whole_heap_does_not_show_a_leak(behaviour: str) -> None:
    """Metaspace that fills at the start runs one; then only young collections run."""
    for seed in range(HEALTHY_RUNS):
        ran: Ran = [*young(120, seed), (5.0 + 7.0 * seed, "full")]
        found = subject(recorded(*HEALTHY[behaviour](), ran=ran, duration=120, seed=seed))
        assert found.verdict != "leak", (seed, found.confidence, found.why)
        assert found.waits_for_gc or found.verdict != "growing", (seed, found.why)


def test_what_an_early_collection_does_not_show_is_told() -> None:
    recording = recorded(Leak(RATE, SIZE), ran=[*young(120, 1), (50.0, "full")], duration=120, seed=1)
    found = subject(recording)
    assert (found.verdict, found.waits_for_gc) == ("growing", True)
    heap = report(recording)
    assert heap
    assert any("no collection of the whole heap ran in the last 1 min" in one for one in heap.coverage)


def test_a_leak_says_what_shows_its_holder() -> None:
    found = subject(recorded(Leak(RATE, SIZE), ran=asked_for(120, 1), duration=120, seed=1))
    assert found.verdict == "leak"
    assert not found.waits_for_gc
    assert "objects of every age stay" in found.why
    assert "it survived a collection of the whole heap" in found.why
    assert "GC.heap_dump" in found.next
    assert "block" not in found.why


def test_without_a_collection_nothing_can_be_told() -> None:
    for seed in range(RUNS):
        found = subject(recorded(Leak(RATE, SIZE), ran=[], duration=60, seed=seed))
        assert found.verdict == "cannot tell yet"
        assert found.confidence == 0
        assert found.site.live_bytes.estimate == 0
        assert "no collection ran" in found.why
        (check,) = gate(recorded(ran=[], duration=60, seed=seed), Limits(max_java_growth=50e3)).checks
        assert check.why == "no collection ran; offheap attach --gc asks for a collection"
        assert "--gc" in found.next


def test_where_kinds_of_collections_are_not_known_the_confidence_is_less() -> None:
    ran = COLLECTORS["full"](240, 1)
    found = subject(recorded(Leak(RATE, SIZE), ran=ran, duration=240, seed=1, kinds_known=False))
    assert found.verdict == "leak"
    assert found.confidence <= 0.9
    assert found.waits_for_gc


def test_thinning_does_not_hide_a_leak() -> None:
    """Half of the objects go whenever there are 300; births were sampled more finely than survivors."""
    found: Counter[str] = Counter()
    for seed in range(RUNS):
        process = JavaProcess(240, seed, COLLECTORS["full"](240, seed))
        process.add(SUBJECT, Leak(RATE, SIZE))
        process.add(OTHERS, Churn(200, 2000, 3.0), Leak(5, SIZE))
        recording = process.record(interval=16_384, most=300)
        assert recording.info.java_heap is not None
        assert recording.info.java_heap.thinned >= 2
        found[subject(recording).verdict] += 1
    assert found["leak"] >= 0.9 * RUNS, found


def test_thinning_makes_no_leak_of_sessions() -> None:
    for seed in range(RUNS):
        process = JavaProcess(240, seed, COLLECTORS["full"](240, seed))
        process.add(SUBJECT, Churn(20, SIZE, 20.0))
        process.add(OTHERS, WarmUp(4000, SIZE, 30.0))
        recording = process.record(interval=16_384, most=1000)
        assert recording.info.java_heap is not None
        assert recording.info.java_heap.thinned >= 1
        found = subject(recording)
        assert found.verdict != "leak", (seed, found.why)


def test_an_old_leak_in_a_short_recording_is_named_within_two_minutes() -> None:
    """100 KB/s beside garbage of 100 MB/s, at the interval that a budget chooses for it."""
    found: Counter[str] = Counter()
    for seed in range(RUNS):
        process = JavaProcess(120, seed, asked_for(120, seed), older=2e9)
        process.add(SUBJECT, Leak(10, 10_000))
        process.add(OTHERS, Churn(5000, 20_000, 0.05))
        found[java_ranking(process.record())[0].verdict] += 1
    assert found["leak"] >= 0.9 * RUNS, found


def test_sites_of_two_classes_are_two() -> None:
    process = JavaProcess(60, 1, asked_for(60, 1))
    callers = ("com.example.Cache.put", "com.example.Main.handle")
    for name in ("byte[]", "com.example.Entry"):
        process.add(object_stack(name, *callers), Leak(RATE, SIZE))
    ranked = java_ranking(process.record(interval=65_536))
    assert {suspect.object_class for suspect in ranked} == {"byte[]", "com.example.Entry"}


def test_verdicts_are_as_of_the_last_collection() -> None:
    """What is younger than it neither counts as live nor as growth."""
    process = JavaProcess(100, 1, [(80.0, "full")])
    number = process.add(SUBJECT, Churn(200, SIZE, 0.01))
    recording = process.record(interval=65_536)
    found = subject(recording)
    assert process.survivors(number)[0] <= 5
    assert found.verdict in ("freed", "steady")
    assert found.site.live_bytes.estimate < 1 << 20
    assert recording.java is not None
    assert recording.java.process["live_bytes"][-1] > 50e6


def test_the_age_of_the_process_counts() -> None:
    """In a JVM's first seconds nearly everything grows."""
    ran = every(1.0, "full", 15)
    recording = recorded(Leak(RATE, SIZE), ran=ran, duration=15, seed=1)
    young_process = replace(
        recording,
        java=recording.java and replace(recording.java, info=replace(recording.java.info, process_age=0.0)),
    )
    assert subject(recording).confidence > subject(young_process).confidence or (
        subject(young_process).verdict != "leak"
    )


def test_lost_objects_leave_the_java_heap_open_and_lost_blocks_do_not() -> None:
    whole = recorded(ran=asked_for(60, 1), duration=60, seed=1)
    assert whole.java
    kinds = {}
    for key in ("lost_blocks", "lost_objects"):
        objects = replace(whole.java, info=replace(whole.java.info, lost={key: 1_000}))
        kinds[key] = conclude(java_ranking(replace(whole, java=objects)), limit=1e9).kind
    assert kinds == {"lost_blocks": "no leak", "lost_objects": "cannot tell yet"}
