"""Follows a live file until the end and writes what it sees as a recording."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from offheap.errors import UserError
from offheap.probe.live_files import recorded_process
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc import status
from offheap.recording.capture.companion import Companion, Companions
from offheap.recording.capture.info import Ended, describe, elapsed, ended
from offheap.recording.capture.pace import SETTLED_SECONDS, Pace, left
from offheap.recording.capture.process_exit import ProcessExit
from offheap.recording.capture.snapshots import Snapshot, Snapshots
from offheap.recording.model import JavaHeap, RecorderCost
from offheap.recording.names.naming import Naming, symbolizer
from offheap.recording.storage.layout import COUNTED
from offheap.recording.storage.writer import RecordingWriter, writer

# How often the recorder checks for the end and for new modules: it waits for the process and reads two
# numbers of the file.  More often at first, when libraries are loaded and some are deleted at once.  A check
# takes 0.2 ms: ten a second are a fifth of what 1 % leaves to the recorder.
_POLL_SECONDS, _SETTLED_POLL_SECONDS = 0.05, 0.2

# PID -> (bytes by owner, gauges by name), as in docs/recording-format.md; None if they are not known.
OwnersReading = Callable[[int], tuple[Mapping[str, float], Mapping[str, float]] | None]


class CollectionLog(Protocol):
    """Follows a JVM's garbage collections: jvm/counters/collection_log.py.  Times are time.monotonic()."""

    known_since: float | None
    collector: str

    def poll(self) -> None: ...

    def take(self) -> list[tuple[str, float, float, int]]: ...

    def take_heaps(self) -> list[tuple[float, int]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """After each snapshot."""

    seconds: float  # since the recording started
    rss_bytes: int
    live_bytes: float
    mapped_bytes: float  # of the live bytes, those of mappings: address space, touched or not
    live_blocks: float
    allocated_bytes: float
    stacks: int
    snapshots: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished recording.

    java_heap  None: Java objects were not requested
    ended      "recording": the time was up or we were asked to stop, the process goes on
    """

    output: Path
    ended: Ended
    seconds: float
    snapshots: int
    stacks: int
    live_bytes: float
    live_blocks: float
    java_version: str
    java_heap: JavaHeap | None


def record(
    live_file: Path,
    output: Path,
    *,
    duration: float | None = None,
    last_reading: float | None = None,
    every: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    collected: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Progress], None] | None = None,
    owners: OwnersReading | None = None,
    collections: Callable[[int], CollectionLog] | None = None,
    keep_arguments: bool = False,
    beside: Companions | None = None,
) -> Outcome:
    """Records until `duration` seconds are over, stop() says so, or the process ends or is detached.

    `every` sets the seconds between snapshots, else it grows with the age of the recording;
    without it the recorder keeps itself under 5 % of one CPU, and under a budget within what that leaves.
    `last_reading` is when `owners` is asked in any case: stop() stops the probe, whose memory goes.
    collected() says whether stop() has asked for a garbage collection.  `owners` tells who holds the RSS; it
    is asked every two seconds at first, later at most with each snapshot, and given 2 % more.  `collections`
    of a PID is read each time that the recorder sees whether it is over.  `keep_arguments` leaves values
    that look like secrets in meta.json.  `beside` runs for as long as the process is recorded.
    Raises UserError when the live file or the output is no good, or when the disk is full: then all that was
    written until then is a readable recording.
    """
    with LiveFile(live_file) as source:
        target = writer(output)
        try:
            recorder = _Recorder(source, target, every, owners, collected, collections, keep_arguments)
            with contextlib.closing(recorder):
                recorder.begin_beside(beside)
                return recorder.run(duration, last_reading, stop, on_progress)
        except OSError as error:
            raise _unwritable(error, output) from error
        finally:
            target.close()


class _Recorder:
    def __init__(
        self,
        source: LiveFile,
        target: RecordingWriter,
        every: float | None,
        owners: OwnersReading | None,
        collected: Callable[[], bool],
        collections: Callable[[int], CollectionLog] | None,
        keep_arguments: bool,
    ) -> None:
        self._keep_arguments = keep_arguments
        self._collected = collected
        self._source = source
        self._target = target
        self._pace = Pace(every)
        self._began = 0.0  # time.monotonic()
        self._pid = recorded_process.find(source.header)
        self._command_line = status.command_line(self._pid) if self._pid is not None else ()
        # At the start: at the end the process and its cgroup may be gone.
        self._memory_limit = recorded_process.memory_limit(self._pid)
        self._naming = Naming(source, symbolizer(self._pid))
        self._snapshots = Snapshots(source, self._naming, native_at_end=True)
        self._modules = 0  # whose images are open
        self._taken = 0
        self._peak = _peak_bytes()
        self._time = 0.0
        self._snapshot_began = 0.0  # time.monotonic() at `_time`
        self._live_time = 0.0
        self._owners = owners
        self._owners_due = 0.0  # time.monotonic()
        self._owners_began = 0.0  # time.monotonic(), and what the last reading took of CPU
        self._owners_cost = 0.0
        self._live_written = 0.0  # time.monotonic(), and what that took of CPU
        self._live_cost = 0.0
        self._live_due = 0.0  # time.monotonic() from which the live set may be written again
        self._log = collections(self._pid) if collections and self._pid is not None else None
        self._companion: Companion | None = None
        self._counted = False  # whether the recording says from when on collections are counted

    def begin_beside(self, beside: Companions | None) -> None:
        if beside and self._pid is not None:
            self._companion = beside(self._pid, self._target.path)

    def close(self) -> None:
        if self._companion:
            self._companion.close()
        self._naming.close()
        if self._log:
            self._log.close()

    def run(
        self,
        duration: float | None,
        last_reading: float | None,
        stop: Callable[[], bool],
        on_progress: Callable[[Progress], None] | None,
    ) -> Outcome:
        self._began = time.monotonic()
        # At once, so that a killed recorder leaves a readable recording.
        self._write_info(self._pid is not None)
        with ProcessExit(self._pid, self._source.header.process_start) as life:
            return self._follow(life, duration, last_reading, stop, on_progress)

    def _follow(
        self,
        life: ProcessExit,
        duration: float | None,
        last_reading: float | None,
        stop: Callable[[], bool],
        on_progress: Callable[[Progress], None] | None,
    ) -> Outcome:
        deadline = self._began + duration if duration is not None else float("inf")
        reading_at = self._began + last_reading if last_reading is not None else float("inf")
        due = self._began
        started, cost = due, 0.0  # of the last snapshot; in CPU seconds, naming apart
        while True:
            if self._log:
                self._log.poll()
            if self._pace.settle(self._age(), time.process_time()):
                due = started + self._pace.until_snapshot(cost, *self._means())
                self._put_owners_off()
            if time.monotonic() >= reading_at:
                reading_at = float("inf")
                due = self._owners_due = time.monotonic()
            # Before stop(), which stops the probe: it holds files that are deleted.
            self._meet_modules()
            # Asked before the file is read, so that what the process wrote before it ended is read below.
            over = life.over or self._source.ended() or time.monotonic() >= deadline or stop()
            if over and self._companion:
                self._companion.close()
            if not over and time.monotonic() < due:
                now = time.monotonic()
                poll = _POLL_SECONDS if self._age() < SETTLED_SECONDS else _SETTLED_POLL_SECONDS
                life.over_within(max(0.0, min(poll, due - now, deadline - now, reading_at - now)))
                continue
            started, used = time.monotonic(), time.process_time()
            snapshot = self._write(final=over)
            spent = time.process_time() - used
            self._pace.pay(spent)
            cost = spent - snapshot.naming_seconds
            if on_progress:
                on_progress(self._progress(snapshot))
            if over:
                return self._finish(snapshot)
            if time.monotonic() >= self._owners_due:
                self._read_owners()
            self._live_due = self._live_written + self._pace.until_live_set(self._live_cost, *self._means())
            due = started + self._pace.until_snapshot(cost, *self._means())

    def _age(self) -> float:
        return time.monotonic() - self._began

    def _means(self) -> tuple[float | None, float, float]:
        """The CPU figures for Pace: what sampling leaves, the recorder's age, and the recorder's use."""
        return left(self._source.header.budget, self._time), self._age(), time.process_time()

    def _meet_modules(self) -> None:
        """Opens the images of new modules, whose files may be gone before the next snapshot."""
        count = self._source.module_count()
        if count == self._modules:
            return
        self._source.refresh()
        # A row that is still being written is looked for again at the next check.
        self._modules = sum(1 for module in self._naming.modules() if module.start)

    def _write(self, *, final: bool) -> Snapshot:
        """One snapshot.  Each table before those that refer to it: killed anywhere, nothing dangles."""
        if not final:  # the last one names native frames, and the tables are written after it
            self._peak = _peak_bytes()
        header = self._source.refresh()
        alive = self._pid is not None and recorded_process.alive(self._pid, header.process_start)
        now = elapsed(header, alive)
        # A killed process's heartbeat lies before its last blocks, and maybe before our last reading.
        self._time = max(self._time, now)
        self._snapshot_began = time.monotonic()
        snapshot = self._snapshots.take(self._time, pid=self._pid, final=final)
        target = self._target
        target.replace_modules(self._naming.modules())
        target.replace_threads(self._source.threads())
        target.append_raws(snapshot.new)
        target.append_frames(snapshot.chains, snapshot.raws)
        target.append_stacks(snapshot.stacks)
        started, used = time.monotonic(), time.process_time()
        if final or started >= self._live_due:
            target.replace_live(snapshot.live)
            self._live_time = snapshot.time
            self._live_cost = time.process_time() - used
            self._live_written = started
        target.append_rows("series", snapshot.series)
        target.append_rows("process", snapshot.process)
        self._write_collections()
        self._write_info(alive)
        self._taken += 1
        return snapshot

    def _write_collections(self) -> None:
        if self._log is None or self._log.known_since is None:
            return
        self._log.poll()  # stop() may have asked for a collection since the last poll
        start = self._snapshot_began - self._time
        rows = self._log.take()
        if not self._counted:
            kind = f"{COUNTED} {self._log.collector}".rstrip()
            rows.insert(0, (kind, self._log.known_since, self._log.known_since, 0))
            self._counted = True
        self._target.append_collections(
            [(kind, begun - start, ended - start, count) for kind, begun, ended, count in rows]
        )
        self._target.append_heap([(time - start, used) for time, used in self._log.take_heaps()])

    def _read_owners(self) -> None:
        self._owners_began, used = time.monotonic(), time.process_time()
        if self._owners is None or self._pid is None:
            return
        seen = self._owners(self._pid)
        # The probe may be out by now, and its memory with it: such a reading is not of what was recorded.
        if seen is not None and not self._source.ended():
            self._target.append_reading(self._time, *seen)
        self._owners_cost = time.process_time() - used
        self._pace.pay(self._owners_cost)
        self._put_owners_off()

    def _put_owners_off(self) -> None:
        self._owners_due = self._owners_began + self._pace.until_reading(self._owners_cost, *self._means())

    def _write_info(self, alive: bool) -> None:
        info = describe(
            self._target.path,
            self._source.header,
            alive=alive,
            duration=self._time,
            properties=self._source.properties(),
            command_line=self._command_line,
            problems=(*self._naming.problems(), *(self._companion.notes() if self._companion else ())),
            live_time=self._live_time,
            memory_limit=self._memory_limit,
            after_collection=self._collected(),
            keep_arguments=self._keep_arguments,
        )
        self._target.replace_info(replace(info, recorder=RecorderCost(time.process_time(), self._peak)))

    def _progress(self, snapshot: Snapshot) -> Progress:
        row = snapshot.process[0]
        return Progress(
            seconds=self._time,
            rss_bytes=int(row["rss_bytes"]),
            live_bytes=float(row["live_bytes"]),
            mapped_bytes=snapshot.mapped_bytes,
            live_blocks=float(row["live_blocks"]),
            allocated_bytes=float(row["allocated_bytes"]),
            stacks=self._snapshots.stack_count,
            snapshots=self._taken,
        )

    def _finish(self, snapshot: Snapshot) -> Outcome:
        self._target.finish()
        header = self._source.header
        alive = self._pid is not None and recorded_process.alive(self._pid, header.process_start)
        how = ended(header, alive)
        if how != "recording":
            self._source.remove()
        properties = self._source.properties()
        row = snapshot.process[0]
        return Outcome(
            output=self._target.path,
            ended=how,
            seconds=self._time,
            snapshots=self._taken,
            stacks=self._snapshots.stack_count,
            live_bytes=float(row["live_bytes"]),
            live_blocks=float(row["live_blocks"]),
            java_version=properties.get("java.version", ""),
            java_heap=header.java_heap,
        )


def _peak_bytes() -> int:
    """Peak RSS of this process."""
    # Not ru_maxrss: this process inherits it from the one that spawned it.
    with open("/proc/self/status") as file:
        return next((int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:")), 0)


def _unwritable(error: OSError, output: Path) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(
            f"the disk of {output} is full: the recording ends there",
            "free some space, or choose another place with -o",
        )
    return UserError(f"{output} cannot be written: {error.strerror or error}", "give another place with -o")
