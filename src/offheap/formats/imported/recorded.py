"""A profile as a recording: rows of its tables, written like the recorder's.

Births are not in any of the formats.  What a file has more than the one before was born between the two, and
what it has less was the youngest.  So the trend of live bytes is that of the files, and no verdict takes
survival for granted (`Info.births`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from offheap import __version__
from offheap.formats.imported.profile import COUNTS, Profile, Reading
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.model import LIVE, PROCESS, SERIES, Info
from offheap.recording.storage.writer import RecordingWriter

MOST_ROWS = 4_000_000  # of LIVE in all, 30 bytes each
_SINGLE = "one file has no time: whether memory grows needs a series of files"


def write(profile: Profile, output: Path, source: str) -> Info:
    """Makes the folder `output`; OSError when it cannot.  `source`: what was imported, for `stats`."""
    start = profile.readings[0].time
    times = [reading.time - start for reading in profile.readings]
    tables = _Tables(len(profile.stacks), profile.interval_bytes)
    writer = RecordingWriter(output)
    writer.replace_modules(profile.modules)
    writer.replace_threads(["other threads"])
    numbers = range(len(profile.frames))
    writer.append_frames({at: (profile.frames[at],) for at in numbers}, dict.fromkeys(numbers, 0))
    writer.append_stacks(_stacks(profile))
    for time, reading in zip(times, profile.readings, strict=True):
        series, process = tables.add(time, reading)
        writer.append_rows("series", series)
        writer.append_rows("process", process)
    live, lacking = tables.live()
    writer.replace_live(live)
    lacks = [*profile.lacks, *([_SINGLE] if len(times) == 1 else []), *lacking]
    info = Info(
        path=str(output),
        pid=profile.pid,
        mode="sampled" if profile.interval_bytes else "exact",
        interval_bytes=profile.interval_bytes,
        start=start,
        duration_seconds=times[-1],
        ended="detached",
        entry="import",
        main_class=profile.program,
        command_line=(source,),
        coverage=tuple(lacks),
        probe_version=__version__,
        imported=profile.format,
        births=False,
    )
    writer.replace_info(info)
    writer.finish()
    return info


def _stacks(profile: Profile) -> NumberedStacks:
    depths = np.array([0, *map(len, profile.stacks)], np.int64)
    frames = np.array([frame for stack in profile.stacks for frame in stack], np.int64)
    kinds = np.concatenate((np.ones(1, np.uint8), profile.kinds))
    return NumberedStacks(np.arange(len(depths), dtype=np.int64), kinds, depths, frames)


class _Tables:
    """What is live by stack, from file to file."""

    def __init__(self, stacks: int, interval: int) -> None:
        self._interval = interval
        self._stacks = stacks
        self._last = np.zeros(stacks, COUNTS)
        self._ever_blocks, self._ever_bytes, self._ever = np.zeros(stacks), np.zeros(stacks), np.zeros(stacks)
        # By stack: pairs of a time of birth and a number of samples, the oldest first.
        self._born: list[list[tuple[float, int]]] = [[] for _ in range(stacks)]

    def add(self, time: float, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
        now = np.zeros(self._stacks, COUNTS)
        now[reading.rows["stack"]] = reading.rows
        more = {
            name: np.maximum(now[name].astype(np.float64) - self._last[name].astype(np.float64), 0.0)
            for name in ("live_blocks", "live_bytes", "samples")
        }
        changed = np.flatnonzero(
            (now["live_bytes"] != self._last["live_bytes"])
            | (now["live_blocks"] != self._last["live_blocks"])
        )
        for stack in changed.tolist():
            self._bear(stack, time, int(now["samples"][stack]) - int(self._last["samples"][stack]))
        self._ever += more["samples"]
        for known, ever, gained in (
            (now["allocated_blocks"], self._ever_blocks, more["live_blocks"]),
            (now["allocated_bytes"], self._ever_bytes, more["live_bytes"]),
        ):
            ever[:] = np.maximum(np.where(np.isnan(known), ever + gained, np.maximum(ever, known)), ever)
        np.maximum(self._ever_blocks, now["live_blocks"], out=self._ever_blocks)
        np.maximum(self._ever_bytes, now["live_bytes"], out=self._ever_bytes)
        self._last = now
        return self._series(time, changed), self._process(time)

    def live(self) -> tuple[np.ndarray, list[str]]:
        """LIVE, and what it lacks."""
        samples = self._last["samples"].astype(np.int64)
        share = min(1.0, MOST_ROWS / max(int(samples.sum()), 1))
        parts = []
        for stack in np.flatnonzero(samples).tolist():
            kept = [(time, max(round(number * share), 1)) for time, number in self._born[stack] if number]
            births = np.repeat([time for time, _ in kept], [number for _, number in kept])
            rows = np.zeros(len(births), LIVE)
            rows["stack"], rows["birth"] = stack + 1, births
            blocks, size = (float(self._last[name][stack]) for name in ("live_blocks", "live_bytes"))
            mean = max(round(size / blocks), 1) if blocks else 1
            # The rows stand for the file's bytes; a size is a whole number, and its rounding is in the weight.
            rows["size"] = mean
            rows["probability"] = min(1.0, len(births) * mean / size) if size else 1.0
            parts.append(rows)
        lacking = [f"blocks are bundled: {MOST_ROWS:,} rows stand for all"] if share < 1 else []
        return np.concatenate(parts) if parts else np.zeros(0, LIVE), lacking

    def _bear(self, stack: int, time: float, change: int) -> None:
        born = self._born[stack]
        if change > 0:
            born.append((time, change))
        while change < 0 and born:
            since, number = born.pop()
            if number + change > 0:
                born.append((since, number + change))
            change += number

    def _series(self, time: float, changed: np.ndarray) -> np.ndarray:
        rows = np.zeros(len(changed), SERIES)
        now = self._last[changed]
        rows["time"], rows["stack"] = time, changed + 1
        rows["live_blocks"], rows["live_bytes"] = now["live_blocks"], now["live_bytes"]
        rows["allocated_blocks"], rows["allocated_bytes"] = (
            self._ever_blocks[changed],
            self._ever_bytes[changed],
        )
        rows["samples"] = np.maximum(self._ever[changed], now["samples"])
        if self._interval:
            self._variances(rows, "live", now["samples"].astype(np.float64))
            self._variances(rows, "allocated", rows["samples"].astype(np.float64))
        return rows

    def _variances(self, rows: np.ndarray, what: str, samples: np.ndarray) -> None:
        """Of equal blocks: total^2 (1 - p) / n, with n samples of probability p."""
        blocks, bytes_ = rows[f"{what}_blocks"], rows[f"{what}_bytes"]
        probability = np.clip(samples / np.maximum(blocks, 1e-9), 0.0, 1.0)
        relative = (1 - probability) / np.maximum(samples, 1.0)
        rows[f"{what}_blocks_variance"], rows[f"{what}_bytes_variance"] = (
            blocks**2 * relative,
            bytes_**2 * relative,
        )

    def _process(self, time: float) -> np.ndarray:
        row = np.zeros(1, PROCESS)
        row["time"] = time
        row["live_bytes"], row["live_blocks"] = (
            self._last["live_bytes"].sum(),
            self._last["live_blocks"].sum(),
        )
        row["allocated_bytes"] = self._ever_bytes.sum()
        return row
