"""Simulated programs of known truth: leaking, healthy, and what every JVM does beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.simulation import (
    MALLOC,
    Behaviour,
    Blocks,
    Cache,
    Churn,
    Flow,
    Generations,
    JustInTime,
    Leak,
    Owned,
    Process,
    UnevenLeak,
    WarmUp,
    arrivals,
    compiler,
    inflater,
    java,
    jvm,
    native,
    native_stack,
)
from offheap.analysis.statistics.estimates import Floats
from offheap.recording.model import Frame

SUBJECT = inflater("com.example.Shop.serve", "com.example.Main.main")
COMPILED = compiler(
    "nmethod::new_nmethod(methodHandle const&, int, int)", "C2Compiler::compile_method(ciEnv*)"
)
CHURN_LIFETIME = 0.05


@dataclass(frozen=True)
class Burst(Behaviour):
    """Work that comes once: `blocks` within `length` seconds from `start`, freed when it is done."""

    blocks: int
    size: float
    start: float
    length: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        births = np.sort(random.uniform(self.start, self.start + self.length, self.blocks))
        births = births[births < duration]
        done = self.start + self.length + random.exponential(self.length / 10, len(births))
        return Blocks(births, done, np.full(len(births), self.size))


@dataclass(frozen=True)
class Tide(Behaviour):
    """Churn whose rate swings as a sine from 0 to twice `rate`: load that comes and goes."""

    rate: float
    size: float
    lifetime: float
    period: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        phase = random.uniform(0, 2 * np.pi)
        births = arrivals(2 * self.rate, 0.0, duration, random)
        births = births[
            random.random(len(births)) < (1 + np.sin(2 * np.pi * births / self.period + phase)) / 2
        ]
        return Blocks(
            births, births + random.exponential(self.lifetime, len(births)), np.full(len(births), self.size)
        )


@dataclass(frozen=True)
class Batches(Behaviour):
    """A leak that comes in batches: `count` blocks at once about every `period` seconds, none freed."""

    count: int
    size: float
    period: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        starts = np.arange(random.uniform(0, self.period), duration, self.period)
        starts = starts + random.uniform(-0.2, 0.2, len(starts)) * self.period
        births = np.sort((starts[:, None] + random.uniform(0, 0.5, (len(starts), self.count))).ravel())
        births = births[(births > 0) & (births < duration)]
        return Blocks(births, np.full(len(births), np.inf), np.full(len(births), self.size))


def collections(period: float, random: np.random.Generator, longest: float = 1000.0) -> tuple[float, ...]:
    """Times of collections, about `period` seconds apart, as garbage comes unevenly."""
    gaps = period * random.gamma(4, 0.25, int(3 * longest / period) + 20)
    times: list[float] = (np.cumsum(gaps) - random.uniform(0, period)).tolist()
    return tuple(time for time in times if 0 < time < longest)


@dataclass(frozen=True)
class Compilations(Behaviour):
    """Memory of compiled methods: ever fewer methods become hot, but now and then some at once.

    rate: methods a second at the start, half of it after a minute; 0.6 of JDK 25 that runs the zoo's pools
    """

    rate: float

    def draw(self, duration: float, random: np.random.Generator) -> Blocks:
        times = math.log1p(duration / 60)

        def methods(count: float) -> Floats:
            result: Floats = 60 * np.expm1(random.uniform(0, times, random.poisson(count * times)))
            return result

        starts = methods(3)
        counts = random.integers(5, 25, len(starts))
        bursts = np.repeat(starts, counts) + random.uniform(0, 2, counts.sum())
        births = np.sort(np.concatenate((methods(self.rate * 60), bursts)))
        births = births[births < duration]
        return Blocks(births, np.full(len(births), np.inf), random.lognormal(math.log(400), 1.0, len(births)))


@dataclass(frozen=True)
class Scenario:
    """A program's subject: a stack, how it behaves, and the bytes it leaks a second (0: it is healthy).

    ran  times of the JVM's collections, of the young generation; None: every few seconds
    """

    name: str
    behaviours: tuple[Behaviour, ...] = ()
    leak: float = 0.0
    flow: Flow | None = None  # churn of the same site
    beside: Flow | None = None  # churn of another site
    stack: tuple[Frame, ...] = SUBJECT
    ran: tuple[float, ...] | None = None

    def process(self, duration: float, seed: int) -> tuple[Process, int]:
        """The program, and the number of the subject's stack."""
        process = Process(duration, seed)
        subject = process.add(self.stack, *self.behaviours, flow=self.flow)
        background(process)
        often = collections(4.0, np.random.default_rng((seed, 4)), duration)
        process.collections = [(time, "young") for time in (often if self.ran is None else self.ran)]
        if self.beside:
            process.add(inflater("com.example.Zip.compress", "com.example.Main.main"), flow=self.beside)
        return process, subject


def background(process: Process) -> None:
    """The work of every JVM: classes are loaded, code is compiled, buffers come and go."""
    random = process.random
    defined = (
        MALLOC,
        jvm("os::malloc(unsigned long, MEMFLAGS)"),
        jvm("SymbolTable::add(char const*)"),
        jvm("JVM_DefineClass"),
        native("Java_java_lang_ClassLoader_defineClass1", "libjava.so"),
        java("java.lang.ClassLoader.defineClass1"),
        java("com.example.Main.main"),
    )
    process.add(compiler(), JustInTime(int(random.integers(100, 600)), 32_768), Churn(20, 32_768, 0.2))
    process.add(compiler("C2Compiler::initialize()"), WarmUp(30, 32_768, 1.0))
    process.add(defined, JustInTime(int(random.integers(100, 400)), 20_000))
    for number in range(4):
        loading = inflater(f"com.example.Start{number}.load", "com.example.Main.main")
        process.add(loading, WarmUp(int(random.integers(5, 100)), 40_000, float(random.uniform(0.3, 4))))
    for number, lifetime in enumerate((0.01, 0.3, 2.0, 10.0)):
        using = inflater(f"com.example.Work{number}.use", "com.example.Main.main")
        process.add(using, Churn(min(300, 200 / lifetime), 20_000, lifetime))
    process.add(native_stack("agent_buffer"), Churn(5, 1 << 20, 0.5))


def leak(rate: float, *, shape: str = "steady") -> Behaviour:
    """A leak of so many bytes a second, in blocks of a size that such leaks have."""
    size = float(min(max(rate / 10, 100), 65_536)) if rate < 71_600 else 7160.0 if rate < 5e6 else 65_536.0
    blocks = rate / size
    if shape == "uneven":
        # The mean of a lognormal factor is exp(spread^2 / 2).
        return UnevenLeak(blocks / math.exp(0.6**2 / 2), size)
    if shape == "batches":
        return Batches(max(round(blocks * 5), 1), size, max(round(blocks * 5), 1) / blocks)
    return Leak(blocks, size)


def leaks(rates: Sequence[float], churns: Sequence[float]) -> list[Scenario]:
    """Every rate under every churn, in bytes a second.

    own    the churn has another site, of larger blocks
    same   it has the leak's site, and larger blocks
    alike  it has the leak's site and blocks of its size
    """
    scenarios = []
    for churn in churns:
        for rate in rates:
            leaking = leak(rate)
            assert isinstance(leaking, Leak)
            # Smaller leaks have small blocks: as many bytes of them would be too many blocks to draw.
            alike = ("alike",) if rate >= 1e4 else ()
            for where in ("own", "same", *alike) if churn else ("own",):
                size = leaking.size if where == "alike" else 65_536
                flow = Flow(churn / size, size, CHURN_LIFETIME) if churn else None
                its = flow if where != "own" else None
                scenarios.append(Scenario(where, (leaking,), rate, flow=its, beside=None if its else flow))
    return scenarios


def shapes(rate: float) -> list[Scenario]:
    """Uneven leaks."""
    steady = leak(rate)
    assert isinstance(steady, Leak)
    ran = collections(20.0, np.random.default_rng(int(rate)))
    return [
        Scenario(
            "beside garbage of its own", (Owned(4 * steady.rate, steady.size, ran, kept=0.25),), rate, ran=ran
        ),
        Scenario("uneven load", (leak(rate, shape="uneven"),), rate),
        Scenario("in batches", (leak(rate, shape="batches"),), rate),
        Scenario("starts at 15 s", (Leak(steady.rate, steady.size, start=15),), rate),
        Scenario("after a start-up", (WarmUp(200, 7160, 2), leak(rate)), rate),
        Scenario("under a cache that fills", (Cache(50, 20_000, 500, "closed"), leak(rate)), rate),
        Scenario("under swinging load", (Tide(200, 7160, 0.1, 40), leak(rate)), rate),
        Scenario("of mappings", (Leak(rate / (1 << 20), 1 << 20),), rate, stack=native_stack("map_segment")),
    ]


def healthy(random: np.random.Generator) -> list[Scenario]:
    """One of every healthy kind, with time constants drawn anew."""

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    capacity = int(between(200, 2000))
    fill = between(3, 25)
    kinds: Mapping[str, Callable[[], Sequence[Behaviour]]] = {
        "churn": lambda: (Churn(between(50, 1000), 7160, between(0.02, 3)),),
        "long-lived churn": lambda: (Churn(100, 20_000, between(5, 15)),),
        "cache that fills and stays": lambda: (Cache(capacity / fill, 20_000, capacity, "closed"),),
        "cache that evicts any": lambda: (Cache(capacity / fill, 20_000, capacity),),
        "cache that evicts the oldest": lambda: (Cache(capacity / fill, 20_000, capacity, "first"),),
        "warm-up": lambda: (WarmUp(int(between(50, 2000)), 7160, between(0.5, 10)),),
        "burst": lambda: (
            Burst(int(between(500, 5000)), 7160, float(random.uniform(0, 900)), between(2, 15)),
            Churn(50, 7160, 0.2),
        ),
        "burst at the end": lambda: (
            Burst(2000, 7160, float(random.choice((60, 300, 900))) - between(1, 15), 20),
            Churn(50, 7160, 0.2),
        ),
        "periodic work": lambda: (
            *(Burst(1000, 7160, 5 + step * 30.0, 3) for step in range(30)),
            Churn(50, 7160, 0.2),
        ),
        "swinging load": lambda: (Tide(100, 7160, between(0.1, 3), between(10, 60)),),
        "thread pools": lambda: (Generations(int(between(10, 50)), 1 << 20, between(3, 25)),),
        "nothing but the JVM": lambda: (),
    }
    compiling = Scenario("code compiled in bursts", (Compilations(between(0.1, 1)),), stack=COMPILED)
    often, rarely = collections(between(2, 15), random), collections(between(15, 90), random)
    owned = [
        Scenario("freed by the collector", (Owned(between(20, 200), 20_000, often),), ran=often),
        Scenario("freed by rare collections", (Owned(between(20, 200), 20_000, rarely),), ran=rarely),
        Scenario(
            "dropped after use", (Owned(between(20, 200), 20_000, rarely, used=between(0.1, 5)),), ran=rarely
        ),
        Scenario("never collected", (Owned(between(5, 50), 20_000),), ran=()),
    ]
    return [*(Scenario(name, tuple(behaviours())) for name, behaviours in kinds.items()), *owned, compiling]


def undecidable(random: np.random.Generator) -> list[Scenario]:
    """Healthy programs that look like a leak while they are recorded: documented limits, counted apart."""
    half_life = float(np.exp(random.uniform(np.log(10), np.log(60))))
    return [
        Scenario("cache that fills ever slower, half in 10 to 60 s", (WarmUp(5000, 7160, half_life),)),
        Scenario("cache that fills ever slower, half in 5 minutes", (WarmUp(10_000, 7160, 300),)),
        Scenario("cache that fills for 20 minutes", (Cache(2, 20_000, 2400, "closed"),)),
        Scenario("sessions of 10 minutes", (Churn(5, 40_000, 600),)),
    ]
