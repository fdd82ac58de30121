"""How one call path of a simulated process allocates and frees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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
    """A way to allocate; `draw(duration, random)` returns the blocks."""

    def draw(self, duration: float, random: np.random.Generator) -> Blocks: ...


def arrivals(rate: float, start: float, end: float, random: np.random.Generator) -> Floats:
    """Random times of births, `rate` a second."""
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
    """A leak whose rate changes every second or so, with load and the machine's other work."""

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
    """Churn too fast to draw block by block: the live blocks of two snapshots are independent.

    `rate` blocks of `size` bytes a second that live for `lifetime` seconds on average, far
    shorter than the time between two snapshots.
    """

    rate: float
    size: float
    lifetime: float


@dataclass(frozen=True)
class Cache:
    """Fills to `capacity` entries; a later entry evicts another (`policy`), or is refused."""

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
    """Blocks that stay, ever fewer of them: half are born in the first `half_life` seconds."""

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
    """`count` blocks come together every `period` seconds and go with the next arrival: thread pools."""

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
    """`rate` blocks a second; the cleaners of a collection free all of them every `period` seconds."""

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
