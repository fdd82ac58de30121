"""Verdicts on owners over time, on series like those of real programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from offheap.analysis.owners.growth import loaders_grown
from offheap.analysis.owners.heap_collections import after_collections
from offheap.analysis.owners.results import Grown, WhereVerdict
from offheap.analysis.owners.verdict import judge
from offheap.analysis.verdicts.power import DEFAULT_LIMIT
from offheap.inspect.over_time import by_name
from offheap.jvm.listener.class_loaders import Loaders
from offheap.quantities import PER_SECOND
from offheap.recording.model import OwnersOverTime

MIB = 1 << 20
TIMES = np.arange(60.0)
Series = NDArray[np.float64]
FLAT = {"java-heap": 60.0, "malloc": 20.0, "metaspace": 10.0, "shared-libraries": 18.0}


def over(gauges: dict[str, Series] | None = None, **owners: Series) -> OwnersOverTime:
    """Values in MiB, with the jitter of every process."""
    rng = np.random.default_rng(7)
    held = {name: np.full(60, size) for name, size in FLAT.items()}
    held.update({name.replace("_", "-"): values for name, values in owners.items()})
    names = sorted(held)
    table = np.stack([held[name] for name in names], axis=1) * MIB
    table += np.abs(rng.normal(0, 20_000, table.shape))
    return OwnersOverTime(TIMES, names, table, table.sum(axis=1), gauges or {})


def verdict(readings: OwnersOverTime) -> WhereVerdict:
    return judge(readings, pid=4711).verdict


def line(first: float, per_second: float) -> Series:
    return first + per_second * TIMES


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        ("malloc", "native-malloc"),
        ("jvm-malloc", "native-malloc"),
        ("direct-buffers", "direct-buffers"),
        ("anonymous", "native-mmap"),
        ("unattributed", "native-mmap"),
        ("mapped-files", "mapped-files"),
        ("code-cache", "code-cache"),
    ],
)
def test_who_grows_is_named(owner: str, kind: str) -> None:
    found = judge(over(None, **{owner: line(20, 0.5)}), pid=4711)
    assert found.verdict.kind == kind
    assert "4711" in " ".join(found.verdict.next)
    (grown,) = [one for one in found.owners if one.owner == owner]
    assert grown.growth
    assert grown.growth.low <= 0.5 * MIB <= grown.growth.high


@pytest.mark.parametrize(
    ("owner", "kind", "words"),
    [
        ("malloc", "native-malloc", "jemalloc has it, and does not tell how much of it is free but kept"),
        ("unattributed", "native-mmap", "it may be jemalloc's, or mapped by a library"),
        ("mapped-files", "mapped-files", ""),
    ],
)
def test_another_allocator_is_said(owner: str, kind: str, words: str) -> None:
    found = verdict(over({"allocator: jemalloc": np.ones(60)}, **{owner: line(20, 0.5)}))
    assert found.kind == kind
    assert words in found.why
    assert bool(words) == ("jemalloc" in found.why)


def test_nothing_grows() -> None:
    found = verdict(over())
    assert found.kind == "stable"
    assert found.next == ()


def test_stable_is_said_with_what_is_excluded() -> None:
    found = verdict(over())
    assert found.excluded is not None
    assert 0 < found.excluded < DEFAULT_LIMIT
    assert f"nothing above {PER_SECOND.format(found.excluded)}" in found.why
    # 6 MiB a minute is too little beside 2 GiB to count as growth, and too much for a stable verdict.
    slow = verdict(over(java_heap=np.full(60, 2048.0), malloc=line(20, 0.1)))
    assert slow.kind == "cannot tell yet"
    assert slow.excluded is not None
    assert slow.excluded > 0.1 * MIB
    assert "malloc's memory grew by 10" in slow.why
    assert "too little so far in a process of 2.1 GiB: growth counts from 8.0 MiB on" in slow.why
    assert slow.needs_seconds is not None
    assert 120 <= slow.needs_seconds <= 180
    assert slow.next == (f"offheap where 4711 --watch {slow.needs_seconds:.0f}s",)
    # A scattered series is not cleared either: its interval contains both nothing and much.
    noise = np.random.default_rng(1).normal(0, 4, 60)
    assert verdict(over(java_heap=np.full(60, 2048.0), malloc=30 + noise)).kind == "cannot tell yet"


@pytest.mark.parametrize("heap", [100.0, 65536.0])
def test_growth_counts_beside_a_heap_of_any_size(heap: float) -> None:
    """200 KiB/s; the time that an open verdict asks for is enough."""
    seconds: float | None = 60.0
    for _ in range(2):
        assert seconds is not None
        times = np.linspace(0, seconds, 60)
        readings = over(java_heap=np.full(60, heap), malloc=30 + 0.2 * times)
        found = verdict(replace(readings, times=times))
        if found.kind == "native-malloc":
            break
        seconds = found.needs_seconds
    assert found.kind == "native-malloc"


def test_a_step_in_the_first_third_is_said() -> None:
    """The first third is not judged: a leak in rare steps may have made one in it."""
    step = np.where(TIMES >= 8, 28.0, 20.0)
    found = verdict(over({"age": TIMES + 900}, malloc=step))
    assert found.kind == "stable"
    assert "malloc's memory rose by 8.0 MiB in the 19.7 s before" in found.why
    assert found.next == ("offheap where 4711 --watch 300s",)
    assert "rose by" not in verdict(over({"age": TIMES + 900})).why
    assert "rose by" not in verdict(over({"age": TIMES + 48}, malloc=step)).why


@pytest.mark.parametrize("pace", [8.5, 15.0])
def test_the_time_that_too_few_readings_ask_for_is_enough(pace: float) -> None:
    """Under a budget a minute of a large process has fewer readings than the verdict needs."""
    seconds: float | None = 60.0
    for _ in range(3):
        assert seconds is not None
        count = int(seconds // pace)
        few = over(malloc=line(20, 1.0))
        readings = replace(few, times=pace * TIMES[:count], bytes=few.bytes[:count], rss=few.rss[:count])
        found = verdict(readings)
        if found.kind == "native-malloc":
            break
        assert found.needs_seconds
        assert found.needs_seconds > seconds
        seconds = found.needs_seconds
    assert found.kind == "native-malloc"


def test_a_warm_up_is_no_growth() -> None:
    warming = 20 + 40 * (1 - np.exp(-TIMES / 12))
    assert verdict(over(malloc=warming)).kind in ("cannot tell yet", "stable")
    found = verdict(over(malloc=20 + 60 * (1 - np.exp(-TIMES / 22))))
    assert found.kind == "cannot tell yet"
    assert "ever slower" in found.why
    assert found.needs_seconds
    assert verdict(over(metaspace=10 + 3 * np.log1p(TIMES))).kind != "metaspace"
    assert verdict(over(code_cache=10 + 3 * np.log1p(TIMES))).kind != "code-cache"


def saw(per_second: float, period: int = 6) -> dict[str, Series]:
    """A heap that is collected every `period` seconds and keeps a little more each time."""
    return {
        "old-collections": np.floor(TIMES / period),
        "heap-after-collection": 20 * MIB + per_second * MIB * np.floor(TIMES / period) * period,
    }


def test_the_java_heap_is_judged_after_collections() -> None:
    sawtooth = 40 + 5 * (TIMES % 20)
    found = verdict(over(saw(0.4), java_heap=sawtooth))
    assert found.kind == "java-heap"
    assert found.next[0] == "offheap attach 4711 --java-heap --duration 5m --gc"
    assert any("GC.class_histogram" in command for command in found.next)
    assert verdict(over(saw(0.0), java_heap=sawtooth)).kind == "stable"
    # The heap touches pages for the first time, and the bytes after collections stay the same.
    assert verdict(over(saw(0.0), java_heap=line(40, 1.0))).kind == "stable"


def test_a_heap_without_collections_cannot_be_judged() -> None:
    found = verdict(over({"old-collections": np.ones(60)}, java_heap=line(40, 1.0)))
    assert found.kind == "cannot tell yet"
    assert any("GC.run" in command for command in found.next)
    # Another owner's growth is certain without collections.
    assert verdict(over(java_heap=line(40, 1.0), malloc=line(20, 0.5))).kind == "native-malloc"


def test_the_least_between_two_collections() -> None:
    readings = over(
        {
            "old-collections": np.repeat([1.0, 2.0, 3.0], 20),
            "heap-after-collection": np.r_[np.full(20, 9.0), np.linspace(30, 11, 20), np.full(20, 12.0)],
        }
    )
    times, left = after_collections(readings)
    assert left.tolist() == [11.0, 12.0]
    assert times.tolist() == [39.0, 40.0]
    # A reading without the counter, just before a collection, does not hide the collection.
    counts = readings.gauges["old-collections"].copy()
    counts[next(at for at in range(1, 60) if counts[at] > counts[at - 1]) - 1] = np.nan
    gaps = replace(readings, gauges={**readings.gauges, "old-collections": counts})
    assert after_collections(gaps)[1].tolist() == [11.0, 12.0]


def test_classes_only_count_once_they_could_be_unloaded() -> None:
    growing = line(10, 0.5)
    loaders = (Grown("shop.PluginLoader", 10, 300, "loaders"),)
    unloading = {"old-collections": np.floor(TIMES / 10), "heap-after-collection": np.full(60, 20.0 * MIB)}
    found = judge(over(unloading, metaspace=growing), pid=1, loaders=loaders).verdict
    assert found.kind == "metaspace"
    assert "shop.PluginLoader: from 10 to 300" in found.why
    assert verdict(over(metaspace=growing)).kind == "cannot tell yet"
    # Classes bring Java objects and the JVM's malloc with them.
    assert verdict(over(unloading, metaspace=growing, malloc=line(20, 1.0))).kind == "metaspace"


def test_threads_are_counted() -> None:
    threads = {"threads: mailer-#": np.floor(5 + TIMES / 2), "threads: http-#": np.full(60, 8.0)}
    found = verdict(over(threads, thread_stacks=line(2, 0.02), malloc=line(20, 0.5)))
    assert found.kind == "threads"
    assert found.grown[0].name == "mailer-#"
    assert (found.grown[0].before, found.grown[0].after) == (5, 34)
    # Seven more threads do not need 10 MiB/s of malloc; both are named.
    few = {"threads: pool-#": 5 + np.floor(TIMES / 8)}
    blamed = verdict(over(few, thread_stacks=np.full(60, 2.0), malloc=line(50, 10.0)))
    assert blamed.kind == "native-malloc"
    assert "the threads pool-# grew from 5 to 12" in blamed.why
    young = verdict(over({**few, "age": TIMES + 48}, thread_stacks=np.full(60, 2.0), malloc=line(50, 10.0)))
    assert young.kind == "cannot tell yet"
    assert "malloc's memory grew by 10" in young.why
    churn = {"threads: pool-#-thread-#": 5 + TIMES % 7}
    assert verdict(over(churn, thread_stacks=np.full(60, 2.0))).kind == "stable"


def test_threads_with_a_name_each_are_counted() -> None:
    """A thread for each device or customer, named after it: no two names are alike."""
    one_by_one = [np.where(at <= TIMES, 1.0, np.nan) for at in range(60)]
    stacks = line(5, 0.09)
    devices = {f"threads: link-{chr(97 + at % 26)}{chr(97 + at // 26)}": one_by_one[at] for at in range(60)}
    found = verdict(over(devices, thread_stacks=stacks))
    assert found.kind == "threads"
    assert "the threads link... grew from 1 to 60" in found.why
    people = {
        f"threads: {chr(97 + at % 26) * 3}{chr(97 + at // 26)} session": one_by_one[at] for at in range(60)
    }
    found = verdict(over(people, thread_stacks=stacks))
    assert found.kind == "threads"
    assert "the threads of all names grew from 1 to 60" in found.why
    # A process starts its first threads, of any names, one after another.
    assert verdict(over({**people, "age": TIMES + 5}, thread_stacks=stacks)).kind != "threads"
    # More names than one reading has room for.
    crowd = {**people, "threads: (other names)": 3 * TIMES}
    assert "the threads of all names grew from 1 to 237" in verdict(over(crowd, thread_stacks=stacks)).why


def test_names_with_numbers_are_one_group() -> None:
    names = ["pool-1-thread-12", "link-3fa85f64-1", "link-0b7e11d2-9", "C2 CompilerThre0", "cafe"]
    assert by_name("threads: ", ((name, 1) for name in names)) == {
        "threads: pool-#-thread-#": 1,
        "threads: link-#-#": 2,
        "threads: C# CompilerThre#": 1,
        "threads: cafe": 1,
    }
    many = by_name("threads: ", ((chr(97 + at % 26) * (at // 26 + 1), 1) for at in range(300)))
    assert len(many) == 201
    assert sum(many.values()) == 300


def test_a_thread_that_is_renamed_is_not_one_more() -> None:
    renamed = np.floor(TIMES * 0.6)
    pool = {"threads: pool-#": 80 - renamed, "threads: account-#": 1 + renamed}
    assert verdict(over(pool, thread_stacks=np.full(60, 5.0))).kind == "stable"
    # Others that end hide no growth that is larger.
    pool = {"threads: starter-#": 80 - np.floor(TIMES * 0.2), "threads: account-#": 1 + renamed}
    found = verdict(over(pool, thread_stacks=line(5, 0.05)))
    assert found.kind == "threads"
    assert "the threads account-# grew from 1 to 36" in found.why


def test_a_file_that_is_read_for_the_first_time_is_no_leak() -> None:
    """An index or an atlas is mapped once, and its pages come into memory as they are read."""
    atlas = {"mapped: /srv/atlas": line(2, 0.5) * MIB}
    mapped = {**atlas, "mapped-file-space": np.full(60, 300.0 * MIB)}
    found = verdict(over(mapped, mapped_files=line(2, 0.5)))
    assert found.kind == "cannot tell yet"
    assert "no more files were mapped" in found.why
    assert "at most 268 MiB more; /srv/atlas: from 2.0 MiB to 31.5 MiB" in found.why
    assert found.needs_seconds == 600
    small = verdict(over({"mapped-file-space": np.full(60, 50.0 * MIB)}, mapped_files=line(2, 0.5)))
    assert small.needs_seconds is not None
    assert 100 <= small.needs_seconds <= 120
    segments = {**atlas, "mapped-file-space": line(300, 0.5) * MIB}
    assert verdict(over(segments, mapped_files=line(2, 0.5))).kind == "mapped-files"


@pytest.mark.parametrize("owner", ["shared-libraries", "jars"])
def test_libraries_and_archives_that_a_program_maps_grow(owner: str) -> None:
    found = verdict(over(None, **{owner: line(20, 0.5)}))
    assert found.kind == "mapped-files"
    assert "memory of shared libraries and jars grew by" in found.why
    assert found.next == ("offheap where 4711 -v",)
    space = np.full(60, 80.0 * MIB)
    young = verdict(over({"age": TIMES + 48, "library-space": space}, **{owner: line(20, 0.5)}))
    assert young.kind == "cannot tell yet"
    assert "still warming up" in young.why
    mapped = {"age": TIMES + 48, "library-space": space + line(0, 0.6) * MIB}
    assert verdict(over(mapped, **{owner: line(20, 0.5)})).kind == "mapped-files"
    idle = verdict(over({"collections": np.full(60, 3.0)}, **{owner: line(20, 0.5)}))
    assert "no collection of the Java heap ran" in idle.why


def test_what_the_allocator_keeps() -> None:
    assert verdict(over(None, malloc_free=line(20, 1.0))).kind == "allocator-retention"
    assert verdict(over(None, malloc_free=np.full(60, 80.0))).kind == "allocator-retention"
    assert verdict(over(None, malloc_free=np.full(60, 8.0))).kind == "stable"
    # Pools of threads that come and go cause 1 % of RSS in the judged time.
    wandering = verdict(over(None, malloc_free=line(8, 0.03)))
    assert wandering.kind == "stable"
    assert "that malloc keeps free" in wandering.why
    assert verdict(over(None, malloc_free=line(8, 0.1))).kind == "allocator-retention"
    assert verdict(over(None, malloc_free=np.full(60, 80.0), malloc=line(20, 1.0))).kind == "native-malloc"


def test_what_the_compilers_of_a_young_process_free_is_a_warm_up() -> None:
    """A JVM of two minutes under load: the peak of each large compilation stays in malloc."""
    steps = verdict(over({"age": TIMES + 60}, malloc_free=4 + 4.0 * np.floor(TIMES / 15)))
    assert steps.kind == "cannot tell yet"
    ramp = line(4, 0.2)
    assert "still warming up" in verdict(over({"age": TIMES + 60}, malloc_free=ramp)).why
    assert verdict(over({"age": TIMES + 600}, malloc_free=ramp)).kind == "allocator-retention"
    assert verdict(over({"age": TIMES + 60}, malloc_free=line(4, 1.5))).kind == "allocator-retention"


@pytest.mark.parametrize("gauges", [{"collections": np.full(60, 3.0)}, {"age": TIMES + 48}])
def test_what_the_allocator_keeps_does_not_hide_growth(gauges: dict[str, Series]) -> None:
    """Growth that a collection may free, and growth of a young process, are named before retention."""
    found = verdict(over(gauges, malloc_free=np.full(60, 80.0), malloc=line(20, 0.4)))
    assert found.kind == "cannot tell yet"
    assert "malloc's memory grew by 4" in found.why


def test_too_short() -> None:
    readings = over()
    short = OwnersOverTime(readings.times[:4], readings.names, readings.bytes[:4], readings.rss[:4])
    found = verdict(short)
    assert found.kind == "cannot tell yet"
    assert found.needs_seconds == 30
    assert judge(OwnersOverTime.none()).verdict.kind == "cannot tell yet"


def test_loaders_that_grow() -> None:
    before = {"app": Loaders(1, 10, 1000), "plugin": Loaders(3, 30, 3000)}
    after = {"app": Loaders(1, 12, 9000), "plugin": Loaders(5, 50, 5000), "new": Loaders(1, 1, 10)}
    names = [(one.name, one.before, one.after, one.unit) for one in loaders_grown(before, after)]
    assert names == [("plugin", 3, 5, "loaders"), ("new", 0, 1, "loaders"), ("app", 10, 12, "classes")]


def test_what_nobody_counts_is_said() -> None:
    """Without Native Memory Tracking NIO's buffers for each thread are malloc's on JDK 25 (JDK-8344882)."""
    said = verdict(over(malloc=line(20, 0.5)))
    assert any("the buffers that NIO keeps for each thread" in one for one in said.next)
    tracked = verdict(over(malloc=line(20, 0.5), jvm_malloc=np.full(60, 20.0)))
    assert not any("NIO" in one for one in tracked.next)
