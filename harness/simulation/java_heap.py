"""A simulated Java heap: objects, the collectors that free them, and a probe that follows some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from harness.simulation.behaviours import Behaviour, Blocks, Floats
from harness.simulation.stacks import java
from harness.simulation.tables import build
from offheap.recording.model import (
    JAVA,
    LIVE,
    SERIES,
    CollectionKind,
    Collections,
    Frame,
    HeapInUse,
    JavaHeap,
    Recording,
)

OBJECT_INTERVAL = 512 * 1024
SWEEP = 0.02  # seconds from the end of a collection until its dead objects are out of the live table
PAUSE = 0.01  # seconds
_TENURED = 2  # young collections that an object survives before it is in the old generation


def object_stack(of: str, *callers: str) -> tuple[Frame, ...]:
    """The stack of an object of this class; callers are Java methods, innermost first."""
    module = of.removesuffix("[]")
    return (
        Frame(of, "class", module),
        *(java(name, 10 + place) for place, name in enumerate(callers)),
        java("java.lang.Thread.run", 840),
    )


def every(
    period: float, kind: CollectionKind, until: float, first: float = 0.0
) -> list[tuple[float, CollectionKind]]:
    """Collections at a period."""
    return [(float(time), kind) for time in np.arange(first or period, until, period)]


@dataclass
class JavaProcess:
    """A process whose heap is known; each `add` is a stack; its blocks die when their objects are dropped.

    collections  when they begin; in order of time
    older        bytes of objects from before the recording, which live on
    """

    duration: float = 120.0
    seed: int = 0
    collections: Sequence[tuple[float, CollectionKind]] = ()
    older: float = 0.0
    stacks: list[tuple[Frame, ...]] = field(default_factory=lambda: [()])
    objects: list[Blocks] = field(default_factory=lambda: [Blocks(np.zeros(0), np.zeros(0), np.zeros(0))])

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.collections = sorted(self.collections)

    def add(self, stack: Sequence[Frame], *behaviours: Behaviour) -> int:
        """Adds a stack with these behaviours, which add up, and returns its number."""
        joined = Blocks(np.zeros(0), np.zeros(0), np.zeros(0))
        for behaviour in behaviours:
            joined = joined + behaviour.draw(self.duration, self.random)
        order = np.argsort(joined.births, kind="stable")
        births, sizes = joined.births[order], joined.sizes[order]
        self.objects.append(Blocks(births, self._freed(births, joined.deaths[order]), sizes))
        self.stacks.append(tuple(stack))
        return len(self.stacks) - 1

    def survivors(self, stack: int) -> tuple[int, float]:
        """Objects, and their bytes, that were born before the last collection, which did not free them."""
        blocks = self.objects[stack]
        last = max((time for time, _ in self.collections), default=-np.inf)
        alive = (blocks.births < last) & (blocks.deaths > last)
        return int(alive.sum()), float(blocks.sizes[alive].sum())

    def heap_after(self, time: float) -> float:
        """Bytes of objects that a collection at this time leaves."""
        left = sum(
            float(blocks.sizes[(blocks.births < time) & (blocks.deaths > time)].sum())
            for blocks in self.objects
        )
        return left + self.older

    def record(
        self,
        *,
        interval: int = OBJECT_INTERVAL,
        most: int = 1 << 14,
        snapshots: int | None = None,
        seed: int | None = None,
        kinds_known: bool = True,
        heap_told: bool = True,
        age: float = 600.0,
    ) -> Recording:
        """Follow a sample of the objects, `most` of them at once; where there are more, half is thinned out.

        kinds_known  whether the recorder followed the JVM's collections
        heap_told    whether the JVM tells the heap in use after each
        age          of the process, at the end
        """
        random = np.random.default_rng(self.seed + 1000 if seed is None else seed)
        count = max(int(min(self.duration, 120)), 5) if snapshots is None else snapshots
        times = np.linspace(0, self.duration, count + 1)[1:]
        stack = np.repeat(np.arange(len(self.objects)), [len(blocks.births) for blocks in self.objects])
        births, deaths, sizes = (
            np.concatenate([getattr(blocks, name) for blocks in self.objects])
            for name in ("births", "deaths", "sizes")
        )
        draw = random.random(len(births))
        some = draw < -np.expm1(-sizes / interval)
        stack, births, sizes, draw = stack[some], births[some], sizes[some], draw[some]
        gone = deaths[some] + PAUSE + SWEEP
        thinned = _thin(births, gone, sizes, draw, interval, most, self.duration)
        intervals: Floats = interval * np.exp2(np.arange(len(thinned) + 1))
        code = np.searchsorted(thinned, births, "right")  # of each object's birth
        taken = draw < -np.expm1(-sizes / intervals[code])
        births, gone, sizes, draw = (each[taken] for each in (births, gone, sizes, draw))
        stack, code = stack[taken], code[taken]
        probability = -np.expm1(-sizes / intervals[-1])
        left = (gone > self.duration) & (draw < probability)
        live = np.zeros(int(left.sum()), LIVE)
        live["stack"], live["size"], live["birth"] = stack[left], sizes[left], np.round(births[left], 2)
        live["probability"] = probability[left]
        series = _series(times, stack, births, gone, sizes, draw, code, intervals, thinned)
        stacks = len(self.stacks)
        heap = self._java_heap(int(intervals[-1]), len(live), most, len(thinned))
        kinds = [0] + [JAVA] * (stacks - 1)
        objects = build(
            self.stacks,
            kinds,
            ["worker"],
            live,
            series,
            duration=self.duration,
            interval=heap.interval_bytes,
            times=times,
        )
        ran = self._collections() if kinds_known else None
        info = replace(objects.info, java_heap=heap, process_age=age - self.duration)
        objects = replace(objects, info=info, collections=ran)
        return replace(
            objects,
            live=np.zeros(0, LIVE),
            series=np.zeros(0, SERIES),
            heap=self._heap() if heap_told else HeapInUse.none(),
            java=objects,
        )

    def _freed(self, births: Floats, dropped: Floats) -> Floats:
        """When a collection frees each object: a young one only while the object is young."""
        freed = np.full(len(births), np.inf)
        survived = np.zeros(len(births), np.int64)
        begun = 0.0
        for time, kind in self.collections:
            exists = (births < time) & (freed > time)
            # A concurrent cycle frees what was unreachable at its begin.
            dead = exists & (dropped <= (begun if kind == "concurrent" else time))
            if kind == "young":
                dead &= survived < _TENURED
                begun = time
            freed[dead] = time
            survived[exists & ~dead] += 1
        return freed

    def _collections(self) -> Collections:
        begun = np.array([time for time, _ in self.collections])
        kinds = tuple(kind for _, kind in self.collections)
        return Collections(0.0, kinds, begun, begun + PAUSE, np.ones(len(kinds), np.int64))

    def _java_heap(self, interval: int, followed: int, most: int, thinned: int) -> JavaHeap:
        last = max((time for time, _ in self.collections), default=0.0)
        return JavaHeap(
            "followed",
            interval_bytes=interval,
            followed=followed,
            most=most,
            thinned=thinned,
            collections=len(self.collections),
            collected=last,
            swept=self.duration,  # the probe sweeps at the end
        )

    def _heap(self) -> HeapInUse:
        begun = np.array([time for time, _ in self.collections])
        return HeapInUse(begun + PAUSE, np.array([self.heap_after(time) for time in begun.tolist()]))


def _thin(
    births: Floats, gone: Floats, sizes: Floats, draw: Floats, interval: int, most: int, duration: float
) -> Floats:
    """The times at which the table is full, and the interval doubles until half of the objects are enough."""
    times: list[float] = []
    code, now = 0, 0.0
    while True:
        kept = draw < -np.expm1(-sizes / (interval * 2.0**code))
        events = np.concatenate((births[kept], gone[kept]))
        steps = np.concatenate((np.ones(kept.sum()), -np.ones(kept.sum())))
        order = np.argsort(events, kind="stable")
        followed, at = np.cumsum(steps[order]), events[order]
        full = (followed >= most) & (at >= now) & (at <= duration)
        if not full.any():
            return np.array(times)
        now = float(at[full.argmax()])
        while followed_at(births, gone, sizes, draw, interval * 2.0**code, now) > most / 2:
            times.append(now)
            code += 1


def followed_at(
    births: Floats, gone: Floats, sizes: Floats, draw: Floats, interval: float, time: float
) -> int:
    kept = (draw < -np.expm1(-sizes / interval)) & (births <= time) & (gone > time)
    return int(kept.sum())


def _series(
    times: Floats,
    stack: NDArray[np.int64],
    births: Floats,
    gone: Floats,
    sizes: Floats,
    draw: Floats,
    code: NDArray[np.int64],
    intervals: Floats,
    thinned: Floats,
) -> NDArray[np.void]:
    """The counters at each snapshot: allocated ones by the interval of the birth, live ones by today's."""
    order = np.argsort(births, kind="stable")
    stack, code = stack[order], code[order]
    births, gone, sizes, draw = (each[order] for each in (births, gone, sizes, draw))
    count, today = int(stack.max(initial=0)) + 1, -1
    # Each snapshot and stack has a cell: what was born since the snapshot before.
    cells = np.searchsorted(times, births) * count + stack
    most = (len(times) + 1) * count
    allocated = {
        column: np.bincount(cells, weight, minlength=most).reshape(-1, count).cumsum(axis=0)
        for column, weight in _weights("allocated", sizes, -np.expm1(-sizes / intervals[code])).items()
    }
    samples = np.bincount(cells, minlength=most).reshape(-1, count).cumsum(axis=0)
    rows = []
    before = np.zeros(count, SERIES)
    for index, time in enumerate(times.tolist()):
        now = np.zeros(count, SERIES)
        now["time"], now["stack"] = time, np.arange(count)
        thinnings = int(np.searchsorted(thinned, time, "right"))
        if thinnings != today:
            today = thinnings
            p = -np.expm1(-sizes / intervals[np.maximum(code, today)])
            kept, live = draw < p, _weights("live", sizes, p)
        born = int(np.searchsorted(births, time, "right"))
        alive = np.flatnonzero(kept[:born] & (gone[:born] > time))
        for column, sums in allocated.items():
            now[column] = sums[index]
        for column, weight in live.items():
            now[column] = np.bincount(stack[alive], weight[alive], minlength=count)
        now["samples"] = samples[index]
        changed = (now["samples"] != before["samples"]) | (now["live_bytes"] != before["live_bytes"])
        rows.append(now[changed])
        before = now
    joined: NDArray[np.void] = np.concatenate(rows)
    return joined


def _weights(name: str, sizes: Floats, p: Floats) -> dict[str, Floats]:
    """What each object adds to the columns of its site, by its probability to be sampled."""
    return {
        f"{name}_blocks": 1 / p,
        f"{name}_blocks_variance": (1 - p) / p**2,
        f"{name}_bytes": sizes / p,
        f"{name}_bytes_variance": sizes**2 * (1 - p) / p**2,
    }
