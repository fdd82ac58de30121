"""Sources for `offheap live` that replay a simulated process or a finished recording."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from harness.simulation import Blocks, Cache, Churn, Leak, Process, inflater, native_stack
from offheap.analysis.live.view import View
from offheap.live.follower import Follower
from offheap.recording.live_update import LiveUpdate
from offheap.recording.model import Recording


def until(process: Process, time: float) -> Process:
    """The process as it was at that time."""
    past = Process(duration=time, seed=process.seed)
    past.stacks, past.kinds, past.threads = process.stacks, process.kinds, process.threads
    past.blocks = [
        Blocks(b.births[b.births <= time], b.deaths[b.births <= time], b.sizes[b.births <= time])
        for b in process.blocks
    ]
    return past


@dataclass
class Replay:
    """A source that shows a simulated process at these times, with every block recorded."""

    process: Process
    times: list[float]
    exact: bool = True
    _now: Recording | None = None

    def update(self) -> LiveUpdate | None:
        if not self.times:
            return None
        self._now = until(self.process, self.times.pop(0)).record(exact=self.exact, snapshots=1)
        its = self._now
        over = not self.times
        info = replace(its.info, ended="exited" if over else "recording")
        return LiveUpdate(info, False, over, its.live, its.series, its.process)

    def recording(self) -> Recording:
        assert self._now
        return self._now


@dataclass
class Whole:
    """A source that shows all of a finished recording at once."""

    recorded: Recording
    read: bool = False

    def update(self) -> LiveUpdate | None:
        if self.read:
            return None
        self.read = True
        its = self.recorded
        return LiveUpdate(its.info, True, True, its.live, its.series, its.process)

    def recording(self) -> Recording:
        return self.recorded


def followed(process: Process, times: list[float], *, exact: bool = True) -> tuple[Follower, View]:
    follower = Follower(Replay(process, list(times), exact))
    views = [follower.advance() for _ in times]
    assert views[-1]
    return follower, views[-1]


def site(view: View, name: str) -> int:
    found = [n for n, suspect in enumerate(view.names.suspects) if suspect.blamed.name == name]
    assert len(found) == 1, [suspect.blamed.name for suspect in view.names.suspects]
    return found[0]


def leaky(duration: float = 30.0, seed: int = 1) -> tuple[Process, int]:
    process = Process(duration=duration, seed=seed)
    leak = process.add(inflater("com.example.Foo.leak"), Leak(rate=200, size=7160), thread="leaker")
    process.add(native_stack("churn_buffers"), Churn(rate=2000, size=65536, lifetime=0.2))
    process.add(native_stack("fill_cache"), Cache(rate=500, size=4096, capacity=2000))
    return process, leak


def unfinished(process: Process) -> tuple[Follower, View]:
    """A process that is followed for 30 s and continues."""
    follower = Follower(Replay(process, [10.0, 20.0, 30.0, 40.0, 50.0]))
    views = [follower.advance() for _ in range(3)]
    assert views[-1]
    return follower, views[-1]


class Sampled(Replay):
    """A process of sampled blocks, each with the probability of its sampling."""

    def update(self) -> LiveUpdate | None:
        update = super().update()
        if update is None or self._now is None:
            return update
        live, series = update.live, update.series.copy()
        live["probability"] = -np.expm1(-live["size"].astype(float) / (512 * 1024))
        weight = 1 / live["probability"]
        for row in series:
            of = live["stack"] == row["stack"]
            size = live["size"][of].astype(float)
            row["live_bytes"] = (size * weight[of]).sum()
            row["live_bytes_variance"] = (size**2 * (weight[of] - 1) * weight[of]).sum()
            row["live_blocks"] = weight[of].sum()
        info = replace(update.info, mode="sampled", interval_bytes=512 * 1024)
        self._now = replace(self._now, info=info, live=live, series=series)
        return replace(update, info=info, live=live, series=series)
