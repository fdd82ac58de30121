"""A bench for analysis: processes of known behaviour, sampled as the probe samples, as Recordings.

process = Process(duration=20, seed=1)
stack = process.add(inflater("com.example.Foo.bar"), Leak(rate=200, size=7160))
recording = process.record()             # sampled at 512 KiB; record(exact=True), record(snapshots=1)
process.truth(stack)                     # live blocks and bytes as they are
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from offheap.recording.model import (
    LIVE,
    PROCESS,
    SERIES,
    Budget,
    CollectionKind,
    Collections,
    Frame,
    Info,
    Recording,
)

Floats = NDArray[np.float64]
INTERVAL = 512 * 1024


@dataclass(frozen=True)
class Blocks:
    """Births and deaths in seconds since the start (inf: never freed), sizes in bytes."""

    births: Floats
    deaths: Floats
    sizes: Floats

    def __add__(self, other: Blocks) -> Blocks:
        return Blocks(
            np.concatenate((self.births, other.births)),
            np.concatenate((self.deaths, other.deaths)),
            np.concatenate((self.sizes, other.sizes)),
        )


class Behaviour(Protocol):
    """What makes blocks; `draw(duration, random)` says which."""

    def draw(self, duration: float, random: np.random.Generator) -> Blocks: ...


def arrivals(rate: float, start: float, end: float, random: np.random.Generator) -> Floats:
    """Times of births that come by chance, `rate` a second."""
    return np.sort(random.uniform(start, end, random.poisson(rate * max(end - start, 0.0))))


@dataclass(frozen=True)
class Leak:
    """`rate` blocks a second, none ever freed."""

    rate: float
    size: float
    start: float = 0.0

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = arrivals(self.rate, self.start, duration, random)
        return Blocks(births, np.full(len(births), np.inf), np.full(len(births), self.size))


@dataclass(frozen=True)
class UnevenLeak:
    """A leak whose rate changes every second or so, as load and the machine's other work make it."""

    rate: float
    size: float
    spread: float = 0.6  # standard deviation of the rate's logarithm
    start: float = 0.0

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births, time = [np.zeros(0)], self.start
        while time < duration:
            end = min(time + random.uniform(0.3, 2.5), duration)
            births.append(arrivals(self.rate * np.exp(random.normal(0, self.spread)), time, end, random))
            time = end
        joined = np.concatenate(births)
        return Blocks(joined, np.full(len(joined), np.inf), np.full(len(joined), self.size))


@dataclass(frozen=True)
class Born:
    """Blocks born at these times, none freed."""

    times: tuple[float, ...]
    size: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = np.array(self.times)
        return Blocks(births, np.full(len(births), np.inf), np.full(len(births), self.size))


@dataclass(frozen=True)
class Churn:
    """`rate` blocks a second, each freed after a time that is exponential with mean `lifetime`."""

    rate: float
    size: float
    lifetime: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = arrivals(self.rate, 0.0, duration, random)
        return Blocks(
            births, births + random.exponential(self.lifetime, len(births)), np.full(len(births), self.size)
        )


@dataclass(frozen=True)
class Flow:
    """Churn too fast to draw block by block: what is live at one look tells nothing of the next.

    `rate` blocks of `size` bytes a second that live for `lifetime` seconds on average, far
    shorter than the time between two snapshots.
    """

    rate: float
    size: float
    lifetime: float


@dataclass(frozen=True)
class Cache:
    """Fills to `capacity` entries; each later one evicts another (`policy`), or none comes."""

    rate: float
    size: float
    capacity: int
    policy: str = "random"  # random, first, closed

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = arrivals(self.rate, 0.0, duration, random)
        if self.policy == "closed":
            births = births[: self.capacity]
        deaths = np.full(len(births), np.inf)
        kept = list(range(min(self.capacity, len(births))))
        for entry in range(self.capacity, len(births)):
            place = entry % self.capacity if self.policy == "first" else int(random.integers(self.capacity))
            deaths[kept[place]] = births[entry]
            kept[place] = entry
        return Blocks(births, deaths, np.full(len(births), self.size))


@dataclass(frozen=True)
class WarmUp:
    """Blocks that stay, born ever more rarely: half of them in the first `half_life` seconds."""

    blocks: int
    size: float
    half_life: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = np.sort(random.exponential(self.half_life / np.log(2), self.blocks))
        births = births[births < duration]
        return Blocks(births, np.full(len(births), np.inf), np.full(len(births), self.size))


@dataclass(frozen=True)
class JustInTime:
    """Growth as the logarithm of time, as compiled code and symbol tables grow."""

    blocks: int
    size: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = np.sort(np.expm1(random.uniform(0, np.log1p(duration), self.blocks)))
        return Blocks(births, np.full(len(births), np.inf), np.full(len(births), self.size))


@dataclass(frozen=True)
class Generations:
    """`count` blocks come together every `period` seconds and go when the next do: thread pools."""

    count: int
    size: float
    period: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        starts = np.arange(random.uniform(0, self.period), duration, self.period)
        births = np.sort(
            (starts[:, None] + random.uniform(0, self.period / 20, (len(starts), self.count))).ravel()
        )
        return Blocks(births, births + self.period * 0.97, np.full(len(births), self.size))


@dataclass(frozen=True)
class Sawtooth:
    """`rate` blocks a second, all freed together every `period` seconds, as by a collection's cleaners."""

    rate: float
    size: float
    period: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = arrivals(self.rate, 0.0, duration, random)
        phase = random.uniform(0, self.period)
        return Blocks(
            births,
            (np.floor((births + phase) / self.period) + 1) * self.period - phase,
            np.full(len(births), self.size),
        )


@dataclass(frozen=True)
class Owned:
    """Blocks that Java objects own: dropped after a mean of `used` seconds, freed after the next collection.

    `collections`: times in seconds.  The share `kept` is never dropped: a leak beside garbage.
    """

    rate: float
    size: float
    collections: tuple[float, ...] = ()
    used: float = 0.0
    kept: float = 0.0

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = arrivals(self.rate, 0.0, duration, random)
        dropped = births + random.exponential(self.used, len(births)) if self.used else births
        times = np.append(np.sort(self.collections), np.inf)
        deaths = times[np.searchsorted(times, dropped, "right")] + random.uniform(0, 0.05, len(births))
        deaths[random.random(len(births)) < self.kept] = np.inf
        return Blocks(births, deaths, np.full(len(births), self.size))


def java(name: str, line: int = 0) -> Frame:
    return Frame(name, "java", name.rpartition(".")[0], name.split(".")[-2].split("$")[0] + ".java", line)


def native(name: str, module: str = "libapp.so", file: str = "", line: int = 0) -> Frame:
    return Frame(name, "native", module, file, line)


def jvm(name: str) -> Frame:
    return Frame(name, "jvm", "libjvm.so")


MALLOC = native("malloc", "")


def inflater(*callers: str, zcalloc: bool = False) -> tuple[Frame, ...]:
    """The stack of a java.util.zip.Inflater's memory; callers are Java methods, innermost first."""
    inner = (MALLOC, native("zcalloc", "libz.so.1")) if zcalloc else (MALLOC,)
    return (
        *inner,
        native("inflateInit2_", "libz.so.1"),
        native("Java_java_util_zip_Inflater_init", "libzip.so"),
        java("java.util.zip.Inflater.init", 0),
        java("java.util.zip.Inflater.<init>", 106),
        *(java(name, 10 + i) for i, name in enumerate(callers)),
        java("java.lang.Thread.run", 840),
    )


def library(*callers: str, function: str = "Java_com_example_codec_Encoder_create") -> tuple[Frame, ...]:
    """The stack of a native context of a published library's Java object; callers are Java methods."""
    name = function.removeprefix("Java_").replace("_", ".")
    return (
        MALLOC,
        native("encoder_create", "libcodec-1.2.so"),
        native(function, "libcodec-1.2.so"),
        java(name),
        java(f"{name.rpartition('.')[0]}.<init>", 41),
        *(java(caller, 10 + i) for i, caller in enumerate(callers)),
        java("java.lang.Thread.run", 840),
    )


def compiler(*names: str) -> tuple[Frame, ...]:
    """A stack of the JVM's own: a compiler thread's arena."""
    return (
        MALLOC,
        jvm("os::malloc(unsigned long, MEMFLAGS)"),
        jvm("Arena::grow(unsigned long, AllocFailStrategy::AllocFailEnum)"),
        *(jvm(name) for name in names or ("Compile::Compile(ciEnv*, ciMethod*, int)",)),
        jvm("CompileBroker::compiler_thread_loop()"),
        jvm("thread_native_entry(Thread*)"),
        native("start_thread", "libc.so.6"),
    )


def native_stack(*names: str, module: str = "libagent.so") -> tuple[Frame, ...]:
    """A stack without Java frames; names innermost first, outside of malloc."""
    return (MALLOC, *(native(name, module) for name in names), native("start_thread", "libc.so.6"))


@dataclass
class Process:
    """A process whose truth is known; each `add` is a stack."""

    duration: float = 20.0
    seed: int = 0
    stacks: list[tuple[Frame, ...]] = field(default_factory=lambda: [()])
    kinds: list[int] = field(default_factory=lambda: [0])
    blocks: list[Blocks] = field(default_factory=lambda: [Blocks(np.zeros(0), np.zeros(0), np.zeros(0))])
    threads: list[str] = field(default_factory=lambda: ["other threads"])
    flows: dict[int, Flow] = field(default_factory=dict)
    collections: list[tuple[float, CollectionKind]] | None = None  # when they began; None: nobody counts them

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def add(
        self,
        stack: Sequence[Frame],
        *behaviours: Behaviour,
        kind: int = 1,
        thread: str = "worker",
        flow: Flow | None = None,
    ) -> int:
        """A stack that behaves so; several behaviours add up.  The stack's number."""
        joined = Blocks(np.zeros(0), np.zeros(0), np.zeros(0))
        for behaviour in behaviours:
            joined = joined + behaviour.draw(self.duration, self.random)
        if flow:
            self.flows[len(self.stacks)] = flow
        order = np.argsort(joined.births, kind="stable")
        self.blocks.append(Blocks(joined.births[order], joined.deaths[order], joined.sizes[order]))
        self.stacks.append(tuple(stack))
        self.kinds.append(kind)
        self.threads.append(thread)
        return len(self.stacks) - 1

    def truth(self, stack: int) -> tuple[int, float]:
        """Live blocks and bytes of a stack at the end."""
        blocks = self.blocks[stack]
        alive = blocks.deaths > self.duration
        return int(alive.sum()), float(blocks.sizes[alive].sum())

    def record(
        self,
        *,
        interval: int | Callable[[Floats, Floats], Floats] = INTERVAL,
        exact: bool = False,
        snapshots: int | None = None,
        seed: int | None = None,
        until: float | None = None,
    ) -> Recording:
        """Sample the process.  `snapshots`: how many, evenly spread to the end; 1 is a bare live file.

        `interval` may depend on the time of birth and the size, as under a budget; flows take its mean.
        `until`: the recording ends then, the process does not.  The same seed samples the same blocks.
        """
        random = np.random.default_rng(self.seed + 1000 if seed is None else seed)
        end = self.duration if until is None else until
        count = max(int(min(end, 60)), 2) if snapshots is None else snapshots
        times = np.linspace(0, end, count + 1)[1:]
        budget = None
        if callable(interval):
            known = [blocks.sizes for blocks in self.blocks] + [
                np.array([flow.size]) for flow in self.flows.values()
            ]
            times_and_sizes = np.linspace(0, end, 1000)[:, None], np.unique(np.concatenate(known))[None, :]
            over = interval(*times_and_sizes) + np.zeros(1)
            mean = round(float((1 / (1 / over).mean(axis=0)).max()))
            budget = Budget(
                0.01, end, 0.01 * end, round(over.min()), round(over.max()), round(over[-1].max())
            )
        else:
            mean = interval
        live, series = [], []
        for number, blocks in enumerate(self.blocks):
            means = interval(blocks.births, blocks.sizes) if callable(interval) else interval
            probabilities = np.ones(len(blocks.sizes)) if exact else -np.expm1(-blocks.sizes / means)
            taken = random.random(len(blocks.sizes)) < probabilities
            births, deaths = np.round(blocks.births[taken], 2), blocks.deaths[taken]
            sizes, p = blocks.sizes[taken], probabilities[taken]
            begun = births <= end
            births, deaths, sizes, p = births[begun], deaths[begun], sizes[begun], p[begun]
            alive = deaths > end
            rows = np.zeros(int(alive.sum()), LIVE)
            rows["stack"], rows["thread"] = number, number
            rows["size"], rows["birth"], rows["probability"] = sizes[alive], births[alive], p[alive]
            live.append(rows)
            series.append(_series(number, times, births, deaths, sizes, p))
            if number in self.flows:
                # Drawn last, so that what the flow hides stays the same whatever the recording's length.
                extra = np.random.default_rng((self.seed, number, int(end)))
                flow = self.flows[number]
                its = mean
                if callable(interval):
                    its = round(
                        1 / float((1 / interval(np.linspace(0, end, 1000), np.array(flow.size))).mean())
                    )
                live.append(_flow(flow, number, times, its * (not exact), series, extra))
        rows = np.concatenate(series)
        rows = rows[np.argsort(rows["time"], kind="stable")]
        live_rows = np.concatenate(live)
        random.shuffle(live_rows)
        recording = build(
            self.stacks,
            self.kinds,
            self.threads,
            live_rows,
            rows,
            duration=end,
            interval=0 if exact else mean,
            times=times,
            budget=budget,
        )
        return recording if self.collections is None else replace(recording, collections=self._ran(end))

    def _ran(self, end: float) -> Collections:
        ran = sorted((time, kind) for time, kind in self.collections or () if time <= end)
        begun = np.array([time for time, _ in ran])
        return Collections(
            0.0, tuple(kind for _, kind in ran), begun, begun + 0.01, np.ones(len(ran), np.int64)
        )


def _flow(
    flow: Flow,
    number: int,
    times: Floats,
    interval: int,
    series: list[NDArray[np.void]],
    random: np.random.Generator,
) -> NDArray[np.void]:
    """Adds a flow to the stack's series, the last of `series`, and returns what of it is live at the end."""
    p = float(-np.expm1(-flow.size / interval)) if interval else 1.0
    sampled = flow.rate * p
    came = random.poisson(sampled * np.diff(times, prepend=0.0)).cumsum()
    there = random.poisson(sampled * flow.lifetime, len(times))
    before = series.pop()
    rows = np.zeros(len(times), SERIES)
    # A stack keeps the values of its latest row: at each snapshot there is one now.
    last = np.searchsorted(before["time"], times, "right") - 1
    rows[last >= 0] = before[last[last >= 0]]
    rows["time"], rows["stack"] = times, number
    rows["samples"] += came.astype(np.uint64)
    for name, blocks in (("allocated", came), ("live", there)):
        for amount, worth in (("blocks", 1.0), ("bytes", flow.size)):
            rows[f"{name}_{amount}"] += blocks * worth / p
            rows[f"{name}_{amount}_variance"] += blocks * worth**2 * (1 - p) / p**2
    series.append(rows)
    live = np.zeros(there[-1], LIVE)
    live["stack"], live["thread"], live["size"], live["probability"] = number, number, flow.size, p
    live["birth"] = np.maximum(times[-1] - random.exponential(flow.lifetime, there[-1]), 0.0)
    return live


def _series(
    number: int, times: Floats, births: Floats, deaths: Floats, sizes: Floats, p: Floats
) -> NDArray[np.void]:
    weights = {
        "blocks": 1 / p,
        "bytes": sizes / p,
        "blocks_variance": (1 - p) / p**2,
        "bytes_variance": sizes**2 * (1 - p) / p**2,
    }
    rows = np.zeros(len(times), SERIES)
    rows["time"], rows["stack"] = times, number
    by_death = np.argsort(deaths, kind="stable")
    born = np.searchsorted(births, times, "right")
    died = np.searchsorted(deaths[by_death], times, "right")
    rows["samples"] = born
    for name, weight in weights.items():
        allocated = np.concatenate(([0.0], np.cumsum(weight)))[born]
        freed = np.concatenate(([0.0], np.cumsum(weight[by_death])))[died]
        rows[f"allocated_{name}"] = allocated
        rows[f"live_{name}"] = np.where(born == died, 0.0, np.maximum(allocated - freed, 0.0))
    changed = np.concatenate(
        ([rows["samples"][0] > 0], (np.diff(rows["samples"]) > 0) | (np.diff(rows["live_bytes"]) != 0))
    )
    selected: NDArray[np.void] = rows[changed]
    return selected


def build(
    stacks: Sequence[Sequence[Frame]],
    kinds: Sequence[int],
    threads: Sequence[str],
    live: NDArray[np.void],
    series: NDArray[np.void],
    *,
    duration: float,
    interval: int,
    times: Floats,
    lost: dict[str, int] | None = None,
    coverage: tuple[str, ...] = (),
    budget: Budget | None = None,
) -> Recording:
    """A Recording of these rows: distinct frames numbered, RSS made up from the live bytes."""
    numbers: dict[Frame, int] = {}
    flat = [numbers.setdefault(frame, len(numbers)) for stack in stacks for frame in stack]
    process = np.zeros(len(times), PROCESS)
    process["time"] = times
    for index, time in enumerate(times):
        now = series[series["time"] <= time]
        last = {int(stack): row for stack, row in zip(now["stack"], now, strict=True)}
        process["live_bytes"][index] = sum(row["live_bytes"] for row in last.values())
        process["live_blocks"][index] = sum(row["live_blocks"] for row in last.values())
        process["allocated_bytes"][index] = sum(row["allocated_bytes"] for row in last.values())
    process["rss_bytes"] = (process["live_bytes"] + 50e6).astype(np.uint64)
    process["threads"] = 20
    return Recording(
        info=Info(
            path="simulated.offheap",
            pid=4711,
            mode="sampled" if interval else "exact",
            interval_bytes=interval,
            start=1_700_000_000.0,
            duration_seconds=duration,
            ended="exited",
            entry="preload",
            java_version="17.0.9",
            main_class="com.example.Main",
            lost=lost or {},
            joined=int(series["samples"].max(initial=0)),
            coverage=coverage,
            probe_version="0.1.0",
            budget=budget,
            process_age=0.0,
        ),
        frames=list(numbers),
        stack_frames=np.array(flat, np.int32),
        stack_offsets=np.concatenate(([0], np.cumsum([len(stack) for stack in stacks]))).astype(np.int64),
        stack_kinds=np.array(kinds, np.uint8),
        threads=list(threads),
        modules=[],
        live=live,
        series=series,
        process=process,
    )


def large(blocks: int, stacks: int, snapshots: int = 20, seed: int = 3) -> Recording:
    """An exact recording of ten minutes in which every stack leaks: as large as recordings get."""
    random = np.random.default_rng(seed)
    chains: list[tuple[Frame, ...]] = [()]
    for number in range(stacks):
        name = f"com.example.Codec{number % 300}"
        # The number's bits choose the callers, so that stacks share frames as those of real programs do.
        callers = (
            java(f"com.example.Part{(number >> depth % 13) % 37}.m{depth}", depth + 1) for depth in range(30)
        )
        chains.append(
            (MALLOC, native(f"inner_{number % 50}"), native(f"Java_{name}"), java(f"{name}.call"), *callers)
        )
    live = np.zeros(blocks, LIVE)
    live["stack"] = 1 + random.integers(0, stacks, blocks)
    live["size"] = random.integers(16, 9000, blocks)
    live["birth"] = random.uniform(0, 600, blocks)
    live["probability"] = 1.0
    times = np.linspace(0, 600, snapshots + 1)[1:]
    series = np.zeros(snapshots * stacks, SERIES)
    series["time"] = np.repeat(times, stacks)
    series["stack"] = np.tile(np.arange(1, stacks + 1), snapshots)
    cell = np.searchsorted(times, live["birth"]) * stacks + live["stack"].astype(np.int64) - 1
    for weights, columns in (
        (None, ("samples", "live_blocks", "allocated_blocks")),
        (live["size"], ("live_bytes", "allocated_bytes")),
    ):
        born = np.bincount(cell, weights=weights, minlength=len(series)).reshape(snapshots, stacks)
        for column in columns:
            series[column] = born.cumsum(axis=0).ravel()
    kinds = [0] + [1] * stacks
    return build(chains, kinds, ["worker"], live, series, duration=600, interval=0, times=times[:1])
