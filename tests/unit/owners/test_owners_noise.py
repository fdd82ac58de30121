"""Growth under noise, steps and saw-teeth, and the rates that a watch excludes, on simulated owners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from offheap.analysis.owners.results import Grown, WhereVerdict
from offheap.analysis.owners.verdict import judge
from offheap.analysis.verdicts.power import DEFAULT_LIMIT
from offheap.quantities import PER_SECOND
from offheap.recording.model import OwnersOverTime

KIB, MIB = 1 << 10, 1 << 20
Series = NDArray[Any]
HELD = {"java-heap": 60.0, "malloc": 8.7, "metaspace": 10.0, "code-cache": 8.0, "shared-libraries": 18.0}


def over(
    readings: int = 60,
    every: float = 1.0,
    gauges: dict[str, Series] | None = None,
    seed: int = 0,
    **owners: Any,
) -> OwnersOverTime:
    """Values in MiB; each owner jitters by 20 KB."""
    rng = np.random.default_rng(seed)
    held = {name: np.full(readings, size) for name, size in HELD.items()}
    held.update({name.replace("_", "-"): values for name, values in owners.items()})
    names = sorted(held)
    jitter = np.abs(rng.normal(0, 20_000, (readings, len(names))))
    table: NDArray[np.float64] = np.stack([held[name] for name in names], axis=1) * MIB + jitter
    return OwnersOverTime(
        np.arange(readings, dtype=np.float64) * every, names, table, table.sum(axis=1), gauges or {}
    )


def verdict(readings: OwnersOverTime, loaders: tuple[Grown, ...] = ()) -> WhereVerdict:
    return judge(readings, pid=4711, loaders=loaders).verdict


def wander(rng: np.random.Generator, readings: int, memory: float, size: float) -> Series:
    """Noise with that standard deviation, in which each value keeps `memory` of the one before."""
    values, value = np.zeros(readings), 0.0
    for at in range(readings):
        value = memory * value + rng.normal() * np.sqrt(1 - memory**2)
        values[at] = value * size
    return values


def stairs(rng: np.random.Generator, readings: int, first: float, last: float, steps: int) -> Series:
    """From first to last in steps at random times."""
    at = np.sort(rng.uniform(0, readings, steps))
    return first + np.searchsorted(at, np.arange(readings)) * (last - first) / steps


@pytest.mark.parametrize(("first", "last", "steps"), [(8.7, 42.0, 20), (7.5, 13.0, 20), (8.7, 22.9, 30)])
def test_growth_in_steps_is_seen(first: float, last: float, steps: int) -> None:
    """A line with an interval finds a third of them."""
    rng = np.random.default_rng(1)
    series = [stairs(rng, 60, first, last, steps) + wander(rng, 60, 0.8, 0.05) for _ in range(20)]
    kinds = [verdict(over(seed=seed, malloc=malloc)).kind for seed, malloc in enumerate(series)]
    assert set(kinds) <= {"native-malloc", "cannot tell yet"}
    assert kinds.count("native-malloc") >= 12


def test_growth_along_a_curve_is_seen() -> None:
    rng = np.random.default_rng(2)
    curve = 8.7 * (42 / 8.7) ** (np.arange(60) / 60)
    assert verdict(over(malloc=curve + wander(rng, 60, 0.5, 0.3))).kind == "native-malloc"


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8, 0.9, 0.95])
def test_wandering_is_no_growth(memory: float) -> None:
    rng = np.random.default_rng(3)
    kinds = [verdict(over(seed=seed, malloc=20 + wander(rng, 60, memory, 2.0))).kind for seed in range(40)]
    assert kinds.count("stable") + kinds.count("cannot tell yet") >= 38


@pytest.mark.parametrize("rate", [6.0, 9.0, 30.0, 60.0])
@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_what_is_excluded_is_no_less_than_the_truth(rate: float, memory: float) -> None:
    rng = np.random.default_rng(4)
    wrong = 0
    for seed in range(40):
        grown = 8.7 + rate * np.arange(80) / 1024
        found = verdict(over(80, seed=seed, malloc=grown + wander(rng, 80, memory, 0.5)))
        if found.kind == "stable":
            assert found.excluded is not None
            assert found.excluded <= DEFAULT_LIMIT
            assert found.why.startswith(f"nothing above {PER_SECOND.format(found.excluded)}")
            wrong += found.excluded < rate * KIB
        else:
            assert found.kind in ("cannot tell yet", "native-malloc")
    assert wrong <= 2


def collected(period: int, readings: int = 60) -> dict[str, Series]:
    return {"collections": np.floor(np.arange(readings) / period), "old-collections": np.zeros(readings)}


def saw(period: int, height: float, readings: int = 60) -> Series:
    """Growth that a collection frees."""
    return np.arange(readings) % period / period * height


@pytest.mark.parametrize("period", [3, 7, 12, 18, 25])
def test_what_collections_free_is_no_growth(period: int) -> None:
    found = verdict(over(gauges=collected(period), malloc=8.7 + saw(period, 10.0)))
    assert found.kind in ("stable", "cannot tell yet")
    leaking = verdict(over(gauges=collected(period), malloc=8.7 + saw(period, 10.0) + np.arange(60) * 0.4))
    assert leaking.kind in ("native-malloc", "cannot tell yet")
    if period <= 7:
        assert leaking.kind == "native-malloc"
        assert "ran meanwhile and did not free it, none of them of the old generation" in leaking.why


def test_no_collection_ran_that_could_have_freed_it() -> None:
    rising = 8.7 + np.arange(60) * 0.5
    for owner in ("malloc", "direct-buffers", "mapped-files"):
        held: dict[str, Any] = {owner: rising}
        found = verdict(over(gauges={"collections": np.full(60, 3.0)}, **held))
        assert found.kind == "cannot tell yet"
        assert "no collection of the Java heap ran" in found.why
        # A collection before the advised watch would say nothing about growth during the watch.
        assert found.needs_seconds
        assert found.next == (
            f"offheap where 4711 --watch {found.needs_seconds:.0f}s",
            "jcmd 4711 GC.run half-way through it",
        )
    # One collection that frees nothing is enough; without a count of collections there is no doubt.
    once = {"collections": np.where(np.arange(60) > 40, 4.0, 3.0)}
    assert verdict(over(gauges=once, malloc=rising)).kind == "native-malloc"
    assert verdict(over(malloc=rising)).kind == "native-malloc"


def aged(seconds: float) -> dict[str, Series]:
    return {"age": seconds + np.arange(60.0)}


def test_a_young_process_is_warming_up() -> None:
    for owner in ("code-cache", "jvm-malloc"):
        held: dict[str, Any] = {owner: 8 + np.arange(60) * 0.1}
        young = verdict(over(gauges=aged(48), **held))
        assert young.kind == "cannot tell yet"
        assert "still warming up, the process is 1 min 47 s old" in young.why
        assert "look again from an age of 5 min" in young.why
        assert young.next == ("sleep 240; offheap where 4711 --watch 60s",)
        assert young.needs_seconds == 300
    assert verdict(over(gauges=aged(600), code_cache=8 + np.arange(60) * 0.1)).kind == "code-cache"
    # malloc, with HotSpot's own in it, grows beside code and classes; any further growth is a library's.
    code = 8 + np.arange(60) * 0.05
    beside = verdict(over(gauges=aged(48), code_cache=code, malloc=8 + np.arange(60) * 0.05))
    assert "still warming up" in beside.why
    more = 8 + np.arange(60) * 0.5
    for age, kind in ((48, "cannot tell yet"), (600, "native-malloc")):
        assert verdict(over(gauges=aged(age), code_cache=code, malloc=more)).kind == kind


def test_a_cache_of_a_young_process_may_fill() -> None:
    """A straight line for a minute, like RocksDB's; two minutes decide."""
    found = verdict(over(gauges=aged(48), malloc=8 + np.arange(60) * 0.5))
    assert found.kind == "cannot tell yet"
    assert "the process is 1 min 47 s old, and a cache that fills would look the same" in found.why
    assert found.next == ("offheap where 4711 --watch 120s",)
    assert found.needs_seconds == 120
    readings = over(gauges=aged(48), malloc=8 + np.arange(60) * 0.5)
    longer = OwnersOverTime(readings.times * 2, readings.names, readings.bytes, readings.rss, readings.gauges)
    assert verdict(longer).kind == "native-malloc"


def test_class_loaders_tell_a_leak_from_a_warm_up() -> None:
    unloading = {**aged(48), "old-collections": np.floor(np.arange(60) / 10)}
    rising = 10 + np.arange(60) * 0.2
    assert "still warming up" in verdict(over(gauges=unloading, metaspace=rising)).why
    leak = (Grown("shop.PluginLoader", 10, 300, "loaders"),)
    assert verdict(over(gauges=unloading, metaspace=rising), leak).kind == "metaspace"
    reflection = (Grown("jdk.internal.reflect.DelegatingClassLoader", 10, 300, "loaders"),)
    assert "still warming up" in verdict(over(gauges=unloading, metaspace=rising), reflection).why


def test_why_is_about_what_grew() -> None:
    rng = np.random.default_rng(5)
    heap = 60 + rng.normal(0, 8, 60)
    assert "Java heap" not in verdict(over(malloc=8.7 + np.arange(60) * 0.5, java_heap=heap)).why
    rising = 60 + np.arange(60) * 0.5
    assert "Java heap" not in verdict(over(malloc=8.7 + np.arange(60) * 0.5, java_heap=rising)).why
    alone = verdict(over(java_heap=60 + wander(rng, 60, 0.8, 8)))
    assert alone.kind == "cannot tell yet"
    assert "may have grown by up to" in alone.why
    # A longer watch alone would see more pages, not less garbage.
    assert "too few collections of the old generation" in alone.why
    assert any("GC.run 4 times" in command for command in alone.next)


def test_buffers_that_threads_hold_are_direct_buffers() -> None:
    threads = {"threads: writer-#": np.floor(5 + np.arange(60) / 2)}
    readings = over(
        gauges={
            **threads,
            "direct-buffer-bytes": (5 + np.arange(60.0) / 2) * MIB,
            "direct-buffers": 5 + np.arange(60) // 2,
        },
        thread_stacks=2 + np.arange(60) * 0.02,
        direct_buffers=5 + np.arange(60) / 2,
    )
    found = verdict(readings)
    assert found.kind == "direct-buffers"
    assert "threads writer-# grew from 5 to 34" in found.why
    assert "the JDK counts 5 buffers at first and 34 at last" in found.why
    assert "maxCachedBufferSize" in found.why
    # If the stacks of the threads grow, the verdict is threads.
    few = over(gauges=threads, thread_stacks=2 + np.arange(60) * 0.5, direct_buffers=5 + np.arange(60) * 0.05)
    assert verdict(few).kind == "threads"


def test_what_malloc_keeps_is_not_blamed_beside_growing_blocks() -> None:
    """A leak by RocksDB on a busy machine: ten readings, with less growth in the last ones."""
    times = np.array([8.0, 13, 18, 25, 32, 39, 44, 49, 55, 61])
    malloc = np.array([33.8, 39.5, 43.6, 47.7, 55.0, 63.9, 65.3, 70.2, 72.9, 77.2])
    kept = np.array([0.0, 1.9, 2.2, 2.4, 0.9, 1.9, 4.5, 3.9, 5.0, 5.7])
    collections = {"collections": np.array([3.0, 4, 4, 5, 5, 6, 6, 6, 7, 7])}
    for age, kind in ((400, "native-malloc"), (100, "cannot tell yet")):
        readings = over(10, gauges={**collections, "age": times + age}, malloc=malloc, malloc_free=kept)
        found = verdict(OwnersOverTime(times, readings.names, readings.bytes, readings.rss, readings.gauges))
        assert found.kind == kind
    assert "a cache that fills would look the same" in found.why
    fading = 33.8 + 45 * (1 - np.exp(-times / 20))
    readings = over(10, gauges=collections, malloc=fading, malloc_free=kept)
    found = verdict(OwnersOverTime(times, readings.names, readings.bytes, readings.rss, readings.gauges))
    assert found.kind == "cannot tell yet"
    assert "malloc's memory grew, but ever slower" in found.why


def test_freed_blocks_are_no_growth_of_free_memory() -> None:
    moved = np.minimum(np.arange(60) * 0.3, 12)
    assert verdict(over(malloc=30 - moved, malloc_free=5 + moved)).kind in ("stable", "cannot tell yet")
    assert verdict(over(malloc_free=5 + np.arange(60) * 0.5)).kind == "allocator-retention"


def test_a_reading_without_the_jdks_counters_is_left_out() -> None:
    buffers = np.full(60, 24.0)
    malloc = np.full(60, 8.7)
    missed = np.arange(60) % 9 == 4
    readings = over(
        gauges={"direct-buffer-bytes": np.where(missed, np.nan, 24.0 * MIB)},
        direct_buffers=np.where(missed, 0, buffers),
        malloc=np.where(missed, malloc + 24, malloc),
    )
    readings.bytes[missed, readings.names.index("direct-buffers")] = 0
    found = verdict(readings)
    assert found.kind == "stable"
    assert found.excluded is not None
    assert found.excluded < 8 * KIB
