"""Inspects a running process repeatedly: the owners of its RSS over time, and gauges beside them."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.owners.accounts import Accounts
from offheap.analysis.owners.growth import (
    ALLOCATOR,
    DIRECT_BUFFERS,
    DIRECT_BYTES,
    FILE_SPACE,
    LIBRARY_SPACE,
    MAPPED,
    loaders_grown,
)
from offheap.analysis.owners.results import Grown
from offheap.analysis.owners.thread_growth import OTHER_NAMES, THREADS
from offheap.analysis.owners.warm_up import AGE
from offheap.errors import UserError
from offheap.inspect.process import inspect_process
from offheap.jvm.counters import gauges, hsperfdata
from offheap.jvm.listener import class_loaders
from offheap.jvm.listener.attach_listener import NoProcess, TargetGone
from offheap.jvm.listener.class_loaders import Loaders
from offheap.proc import maps, status
from offheap.recording.capture.recorder import OwnersReading
from offheap.recording.model import OwnersOverTime

_MOST_GROUPS = 200  # of threads, or of files, in one reading
_MOST_READINGS = 120  # kept for a live view; a sparkline needs no more
# Numbers, and hexadecimal ones of four digits or more, such as the parts of a UUID.
_NUMBERS = re.compile(r"(?<![0-9A-Za-z])(?=[A-Fa-f]*\d)[0-9A-Fa-f]{4,}(?![0-9A-Za-z])|\d+", re.ASCII)
_STEP_SECONDS = 0.1
_LISTENER = "Attach Listener"  # HotSpot's thread, which the first attach starts
# offheap asks for class loaders when the classes grew by this share and a third of the time is over.
_MORE_CLASSES = 0.02


@dataclass(frozen=True, slots=True)
class RssReading:
    """One inspection.  `owners`: bytes by name, "unattributed" too, which add up to RSS; `gauges` by name."""

    accounts: Accounts
    owners: dict[str, float]
    gauges: dict[str, float]


@dataclass(frozen=True, slots=True)
class InspectedOverTime:
    """ended    "time": the time is over; "stopped": by stop(); "exited": the process has ended
    loaders  classes of class loaders with more loaders at the end, if requested
    """

    accounts: Accounts  # of the last reading
    over: OwnersOverTime
    loaders: tuple[Grown, ...]
    ended: Literal["time", "stopped", "exited"]
    every: float


@dataclass
class RssReadings:
    """Readings in order, and the table that they make."""

    times: list[float] = field(default_factory=list)
    readings: list[RssReading] = field(default_factory=list)

    def over(self) -> OwnersOverTime:
        owners, held = _table([reading.owners for reading in self.readings], 0.0)
        names, values = _table([reading.gauges for reading in self.readings], np.nan)
        return OwnersOverTime(
            np.array(self.times), owners, held, held.sum(axis=1), dict(zip(names, values.T, strict=True))
        )


class RepeatedReading:
    """Each call inspects the process and returns all readings so far, of which older ones are thinned out."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began = time.monotonic()
        self._readings = RssReadings()

    def __call__(self) -> OwnersOverTime:
        """Errors as of `inspect_process`."""
        now, readings = read_rss(self._pid), self._readings
        readings.times.append(time.monotonic() - self._began)
        readings.readings.append(now)
        if len(readings.times) > _MOST_READINGS:
            del readings.times[1:-1:2], readings.readings[1:-1:2]
        return readings.over()


def read_rss(pid: int, *, attach: bool = True, detail: bool = False, walk: bool = True) -> RssReading:
    """Errors and options as of `inspect_process`."""
    accounts = inspect_process(pid, attach=attach, detail=detail, walk=walk)
    owners: dict[str, float] = {holding.owner: holding.bytes for holding in accounts.holdings}
    owners["unattributed"] = accounts.unattributed_bytes
    try:
        counted = {AGE: status.read(pid).uptime_seconds, **accounts.counters}
        names = _thread_names(pid)
    except (ProcessLookupError, FileNotFoundError):
        raise TargetGone(pid, "reading it") from None
    counted.update(by_name(THREADS, ((name, 1) for name in names)))
    files = [part for one in accounts.holdings if one.owner == "mapped-files" for part in one.parts]
    counted.update(by_name(MAPPED, ((part.name, part.bytes) for part in files)))
    if accounts.direct:
        counted[DIRECT_BYTES] = accounts.direct.reserved
        counted[DIRECT_BUFFERS] = accounts.direct.count
    counted[FILE_SPACE] = accounts.space.files
    counted[LIBRARY_SPACE] = accounts.space.libraries
    if accounts.allocator:
        counted[f"{ALLOCATOR}{accounts.allocator}"] = 1.0
    return RssReading(accounts, owners, counted)


def jvm_counters(pid: int) -> dict[str, float]:
    """The JVM's own counters as gauges; {} if the JVM publishes no counters or has ended."""
    try:
        performance = hsperfdata.read(pid, status.read(pid).namespace_pid, maps.read(pid))
    except OSError:
        return {}
    return gauges.read(performance) if performance else {}


def owners_reader() -> OwnersReading:
    """For a recorder: the owners of the RSS now; asks the JVM only if it listens already.

    The first start of the attach listener costs a JVM memory; a JVM that listens answers in milliseconds.
    After one answer that came too late the reader does not ask the JVM again.
    """
    silent = False

    def now(pid: int) -> tuple[Mapping[str, float], Mapping[str, float]] | None:
        nonlocal silent
        try:
            one = read_rss(pid, attach=not silent and _LISTENER in _thread_names(pid), walk=False)
        except (UserError, OSError):
            return None
        silent = silent or any("did not answer" in sentence for sentence in one.accounts.missing)
        return one.owners, one.gauges

    return now


def inspect_over_time(
    pid: int,
    seconds: float,
    *,
    every: float | None = None,
    attach: bool = True,
    detail: bool = False,
    stop: Callable[[], bool] = lambda: False,
    on_reading: Callable[[float, RssReading], None] | None = None,
) -> InspectedOverTime:
    """Inspects until `seconds` are over, stop() returns True, or the process ends.

    Takes sixty readings unless `every` is given, but none sooner than a second and none later than half a
    minute after the one before.  UserError when the first reading fails.
    """
    every = every or min(max(seconds / 60, 1.0), 30.0)
    readings = RssReadings()
    began = time.monotonic()
    before: dict[str, Loaders] | None = None
    ended: Literal["time", "stopped", "exited"] = "time"
    while True:
        due = time.monotonic() + every
        try:
            now = read_rss(pid, attach=attach, detail=detail)
        except (TargetGone, NoProcess):
            if not readings.readings:
                raise
            ended = "exited"
            break
        age = time.monotonic() - began
        readings.times.append(age)
        readings.readings.append(now)
        if on_reading:
            on_reading(age, now)
        if attach and before is None and age >= seconds / 3 and _more_classes(readings):
            before = class_loaders.ask(pid)
        while not (stopped := stop()) and time.monotonic() < min(due, began + seconds):
            time.sleep(_STEP_SECONDS)
        if stopped or time.monotonic() >= began + seconds:
            ended = "stopped" if stopped else "time"
            break
    after = class_loaders.ask(pid) if before is not None and ended != "exited" else None
    grown = loaders_grown(before, after) if before is not None and after is not None else ()
    return InspectedOverTime(readings.readings[-1].accounts, readings.over(), grown, ended, every)


def _more_classes(readings: RssReadings) -> bool:
    first, last = (readings.readings[at].gauges.get("classes", 0.0) for at in (0, -1))
    return last > first * (1 + _MORE_CLASSES)


def _thread_names(pid: int) -> list[str]:
    names = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            names.append(Path(f"/proc/{pid}/task/{tid}/comm").read_text(errors="replace").strip())
        except OSError:
            continue  # the thread has ended
    return names


def by_name(prefix: str, named: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Gauges: the sum of each name, every number in it written as #."""
    sums: defaultdict[str, float] = defaultdict(float)
    for name, value in named:
        sums[prefix + _NUMBERS.sub("#", name)] += value
    largest = sorted(sums.items(), key=lambda pair: -pair[1])
    found, rest = dict(largest[:_MOST_GROUPS]), largest[_MOST_GROUPS:]
    # Where each thread has its own name, only the sum shows that they become more.
    return {**found, prefix + OTHER_NAMES: sum(value for _, value in rest)} if rest else found


def _table(rows: Sequence[Mapping[str, float]], missing: float) -> tuple[list[str], NDArray[np.float64]]:
    names = sorted({name for row in rows for name in row})
    values = [[row.get(name, missing) for name in names] for row in rows]
    return names, np.array(values, np.float64).reshape(len(rows), len(names))
