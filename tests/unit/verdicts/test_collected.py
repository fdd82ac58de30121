"""The evidence of collections on memory that Java objects of any class may own, healthy and leaking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import pytest

from harness.simulation import (
    Behaviour,
    Churn,
    Leak,
    Owned,
    Process,
    java,
    jvm,
    library,
    native,
    native_stack,
)
from harness.simulation.behaviours import Blocks, arrivals
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.results import Suspect
from offheap.probe.contract import StackKind
from offheap.recording.capture.info import Ended
from offheap.recording.model import CollectionKind, Recording

SUBJECT = library("com.example.Orders.pack", "com.example.Main.main")
RUNS = 10
SIZE = 65_536.0
RATE = 6.65  # blocks a second: 436 KB/s, of which a quarter stays


def times(period: float, duration: float, seed: int) -> list[float]:
    """Collections with this mean interval, as garbage fills a young generation."""
    random = np.random.default_rng((seed, 5))
    gaps = period * random.gamma(16, 1 / 16, int(2 * duration / period) + 3)
    return [time for time in np.cumsum(gaps).tolist() if time < duration]


def recorded(
    *behaviours: Behaviour,
    duration: float,
    seed: int,
    ran: Sequence[float] | None,
    kind: CollectionKind = "young",
    age: float = 600.0,
    interval: int = 65_536,
) -> Recording:
    process = Process(duration, seed)
    process.add(SUBJECT, *behaviours)
    process.collections = None if ran is None else [(time, kind) for time in ran]
    recording = process.record(interval=interval)
    return replace(recording, info=replace(recording.info, process_age=age))


@dataclass(frozen=True)
class FullCache:
    """A cache of `most` of `keys` entries that is asked for a random key `rate` times a second.

    An entry is one block.  When the cache is full it gives up one at random, the new one as well, which is
    freed after the next collection.
    """

    rate: float
    size: float
    keys: int
    most: int
    collections: tuple[float, ...]

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births, deaths = list[float](), list[float]()
        held: dict[int, int] = {}  # key to block
        later = np.append(np.sort(self.collections), np.inf)
        for time in arrivals(self.rate, 0.0, duration, random).tolist():
            key = int(random.integers(self.keys))
            if key in held:
                continue
            held[key] = len(births)
            births.append(time)
            deaths.append(np.inf)
            if len(held) > self.most:
                block = held.pop(list(held)[int(random.integers(len(held)))])
                deaths[block] = float(later[np.searchsorted(later, time, "right")])
        return Blocks(np.array(births), np.array(deaths), np.full(len(births), self.size))


def worst(recording: Recording) -> Suspect:
    return ranking(recording)[0]


@pytest.mark.parametrize("period", [15.0, 40.0])
@pytest.mark.parametrize("kind", ["young", "full", "concurrent"])
def test_what_survives_collections_in_batches_is_a_leak(period: float, kind: CollectionKind) -> None:
    """Three of four blocks are freed at collections, the fourth is kept: four minutes."""
    verdicts: Counter[str] = Counter()
    covered = 0
    for seed in range(RUNS):
        ran = times(period, 240, seed)
        owned = Owned(RATE, SIZE, tuple(ran), kept=0.25)
        suspect = worst(recorded(owned, duration=240, seed=seed, ran=ran, kind=kind))
        verdicts[suspect.verdict] += 1
        growth = suspect.growth_bytes_per_second
        covered += growth.low <= RATE * SIZE / 4 <= growth.high
        assert suspect.verdict != "steady", (seed, suspect.why)
    assert verdicts["leak"] >= 0.9 * RUNS, verdicts
    assert covered >= 0.85 * RUNS


@pytest.mark.parametrize("period", [15.0, 40.0])
@pytest.mark.parametrize("used", [0.0, 0.5, 3.0])
def test_its_healthy_twin_is_steady(period: float, used: float) -> None:
    for seed in range(RUNS):
        ran = times(period, 240, seed)
        owned = Owned(RATE, SIZE, tuple(ran), used=used)
        suspect = worst(recorded(owned, duration=240, seed=seed, ran=ran))
        assert suspect.verdict in ("steady", "freed"), (seed, suspect.why)


@pytest.mark.parametrize("period", [3.0, 6.0, 12.0])
def test_short_lived_blocks_of_the_same_call_hide_no_leak(period: float) -> None:
    """A library's call also takes a block that it frees at once: not all frees come at collections."""
    leaks, healthy = Counter[str](), Counter[str]()
    covered = 0
    for seed in range(2 * RUNS):
        ran = times(period, 60, seed)
        beside = Churn(60, SIZE / 24, 0.002)
        kept = Owned(60, SIZE / 6, tuple(ran), used=0.3, kept=0.25)
        suspect = worst(recorded(kept, beside, duration=60, seed=seed, ran=ran))
        leaks[suspect.verdict] += 1
        growth = suspect.growth_bytes_per_second
        covered += growth.low <= 60 * SIZE / 6 / 4 <= growth.high
        twin = Owned(60, SIZE / 6, tuple(ran), used=0.3)
        healthy[worst(recorded(twin, beside, duration=60, seed=seed, ran=ran)).verdict] += 1
    assert leaks["leak"] >= 0.9 * 2 * RUNS, leaks
    assert covered >= 0.85 * 2 * RUNS
    assert healthy["leak"] + healthy["growing"] == 0, healthy


@pytest.mark.parametrize(("rate", "most"), [(80.0, 2300), (100.0, 2800)])
def test_a_cache_that_is_full_and_replaced_is_no_leak(rate: float, most: int) -> None:
    """Its entries go at collections, as buffers with a Cleaner do."""
    verdicts: Counter[str] = Counter()
    for seed in range(RUNS):
        ran = times(15, 120, seed)
        cache = FullCache(rate, 8192.0, 4000, most, tuple(ran))
        verdicts[worst(recorded(cache, duration=120, seed=seed, ran=ran, interval=32_768)).verdict] += 1
    assert verdicts["leak"] == 0, verdicts


def test_objects_in_use_for_long_are_no_growth_once_their_level_is_reached() -> None:
    """Sessions of a fifth of the recording: blocks of every third survive, and the level does not rise."""
    verdicts: Counter[str] = Counter()
    for seed in range(2 * RUNS):
        ran = times(6, 60, seed)
        suspect = worst(recorded(Owned(60, SIZE / 6, tuple(ran), used=12), duration=60, seed=seed, ran=ran))
        verdicts[suspect.verdict] += 1
    assert verdicts["steady"] >= 0.9 * 2 * RUNS, verdicts
    assert verdicts["leak"] == 0, verdicts


LOADED = (
    native("mmap", ""),
    jvm("metaspace::VirtualSpaceNode::commit_range(MetaWordImpl**, unsigned long)"),
    jvm("ConstantPoolCache::allocate(ClassLoaderData*)"),
    jvm("SystemDictionary::resolve_hidden_class_from_stream(ClassFileStream*)"),
    jvm("JVM_LookupDefineClass"),
    native("Java_java_lang_ClassLoader_defineClass0", "libjava.so"),
    java("java.lang.ClassLoader.defineClass0"),
    java("org.example.sql.Compiler.compile", 12),
    java("com.example.Orders.ask", 40),
)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("young", "young", "young"), "growing"),
        (("young", "full", "young"), "growing"),
        (("full", "young", "full"), "leak"),
    ],
)
def test_classes_leak_once_two_collections_have_unloaded_none(
    kinds: tuple[CollectionKind, ...], expected: str
) -> None:
    """A compiled query has a class of its own, which goes with it, at a collection of the whole heap."""
    for seed in range(RUNS):
        process = Process(60, seed)
        process.add(LOADED, Leak(4, SIZE), kind=StackKind.MMAP)
        process.collections = list(zip((15.0, 35.0, 55.0), kinds, strict=True))
        suspect = worst(process.record(interval=32_768))
        assert suspect.verdict == expected, (seed, suspect.why)
        if expected == "growing":
            assert "unload classes, and no two of them ran" in suspect.why


def test_what_no_collection_could_have_freed_grows_at_most() -> None:
    """The class may be any: it may have a finalizer."""
    for seed in range(RUNS):
        suspect = worst(recorded(Owned(20, SIZE), duration=60, seed=seed, ran=[]))
        assert suspect.verdict == "growing"
        assert suspect.waits_for_gc
        assert "no collection ran that could have freed it" in suspect.why
        assert (
            "Java objects may own it: a collection might still free it (--gc rules that out)" in suspect.why
        )


def test_a_process_that_has_ended_is_attached_to_next_time() -> None:
    recording = recorded(Owned(20, SIZE), duration=60, seed=1, ran=[])
    advice = "offheap attach PID --gc asks for a collection"
    for ended in get_args(Ended):
        words = "when it runs again, " if ended in ("exited", "killed") else ""
        its = replace(recording, info=replace(recording.info, ended=ended))
        assert worst(its).next.startswith(f"{words}{advice}")


def test_what_survived_collections_and_frees_nothing_leaks() -> None:
    for seed in range(RUNS):
        ran = times(8, 60, seed)
        suspect = worst(recorded(Leak(20, SIZE), duration=60, seed=seed, ran=ran))
        assert suspect.verdict == "leak", suspect.why
        assert f"it survived {len(ran)} collections" in suspect.why
        assert not suspect.waits_for_gc


@pytest.mark.parametrize("duration", [20.0, 30.0, 45.0, 60.0, 90.0, 120.0])
def test_garbage_that_waits_for_a_collection_is_never_a_leak(duration: float) -> None:
    """The recording ends at any time after the last collection."""
    for seed in range(RUNS):
        ran = times(25, duration, seed)
        suspect = worst(recorded(Owned(20, SIZE, tuple(ran)), duration=duration, seed=seed, ran=ran))
        assert suspect.verdict != "leak", (seed, ran, suspect.why)


def test_garbage_that_waits_for_longer_than_ever_grows() -> None:
    """Collections every few seconds, then none for a minute: more waits than ever before."""
    ran = [4.0, 8.0, 12.0, 16.0]
    suspect = worst(recorded(Owned(20, SIZE, tuple(ran)), duration=80, seed=1, ran=ran))
    assert suspect.verdict == "growing"
    assert "collections free it in batches, and the next one may free it" in suspect.why
    assert suspect.confidence > 0.8


@pytest.mark.parametrize(("rise", "verdict"), [(1.0, "steady"), (10.0, "growing")])
def test_far_more_garbage_than_before_any_collection_grows(rise: float, verdict: str) -> None:
    """A collection each 40 s, and 38 s since the last one: by the time alone nothing is unusual."""
    ran = [40.0, 80.0, 120.0, 160.0, 200.0]
    more = Leak((rise - 1) * RATE, SIZE, start=200.0)
    for seed in range(RUNS):
        recording = recorded(Owned(RATE, SIZE, tuple(ran)), more, duration=238, seed=seed, ran=ran)
        suspect = worst(recording)
        assert suspect.verdict == verdict, (seed, suspect.why)
        assert answer(ranking(recording)).startswith("Growing" if rise > 1 else "No leak found")


@pytest.mark.parametrize("waiting", [1, 9])
def test_what_waits_adds_no_confidence_that_collections_free_it(waiting: int) -> None:
    """Six blocks are gone that were too old for mere use at the last of two collections."""

    @dataclass(frozen=True)
    class Few:
        def draw(self, duration: float, random: np.random.Generator) -> Blocks:
            births = [np.linspace(1, 18, 5), np.linspace(21, 38, 3), np.linspace(41, 59, waiting)]
            deaths = [np.full(5, 20.2), np.full(3, 40.2), np.full(waiting, np.inf)]
            return Blocks(np.concatenate(births), np.concatenate(deaths), np.full(8 + waiting, SIZE))

    suspect = worst(recorded(Few(), duration=60, seed=1, ran=[20.0, 40.0], kind="full", interval=1024))
    assert suspect.verdict == "steady"
    assert suspect.confidence == pytest.approx(1 - 1 / 8)


def test_a_native_thread_owns_no_java_object() -> None:
    process = Process(60, 3)
    process.add(native_stack("keep_frame", "decode"), Leak(20, SIZE))
    process.collections = []
    assert worst(process.record(interval=65_536)).verdict == "leak"


def test_where_nobody_counted_collections_the_confidence_is_less() -> None:
    (suspect,) = ranking(recorded(Leak(20, SIZE), duration=300, seed=1, ran=None))
    assert suspect.verdict == "leak"
    assert suspect.confidence <= 0.9
    assert suspect.waits_for_gc
    assert answer(ranking(recorded(Leak(20, SIZE), duration=300, seed=1, ran=None))).endswith(
        "Java objects may own it: a garbage collection might still free it."
    )


def test_frees_between_collections_are_not_of_the_collector() -> None:
    """The program frees churn itself, beside a leak: collections do not hide the leak."""
    found = 0
    for seed in range(RUNS):
        ran = times(15, 120, seed)
        behaviours = (Leak(RATE, SIZE), Churn(20, SIZE, 0.3))
        found += worst(recorded(*behaviours, duration=120, seed=seed, ran=ran)).verdict == "leak"
    assert found >= 0.9 * RUNS


def test_a_collection_that_ended_just_now_has_not_freed_yet() -> None:
    suspect = worst(recorded(Owned(20, SIZE), duration=60, seed=2, ran=[59.7]))
    assert suspect.verdict == "growing"
    assert "no collection ran" in suspect.why
