"""A profile as a recording: its tables, written like the recorder's.

Most formats have no births.  If a file has more blocks of a stack than the file before, the additional blocks
were born between the two; if it has fewer, the youngest are gone.  So the trend of live bytes is that of the
files, and no verdict relies on survival (`Info.births`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap import __version__
from offheap.formats.imported.profile import Profile
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.model import JAVA, Info
from offheap.recording.storage.writer import RecordingWriter


def write(profile: Profile, output: Path, source: str) -> Info:
    """Makes the folder `output`; OSError when it cannot.  `source`: what was imported, for `stats`."""
    times = profile.process["time"]
    writer = RecordingWriter(output, at_once=True)
    writer.replace_modules(profile.modules)
    writer.replace_threads(profile.threads)
    numbers = range(len(profile.frames))
    writer.append_frames({at: (profile.frames[at],) for at in numbers}, dict.fromkeys(numbers, 0))
    writer.append_stacks(_stacks(profile))
    writer.append_rows("series", profile.series)
    writer.append_rows("process", profile.process)
    live = profile.live.copy()
    if not profile.births:
        # Java objects have births of their own.
        of_blocks = profile.kinds[live["stack"].astype(np.int64) - 1] != JAVA
        live["birth"] = np.where(of_blocks, _births(profile), live["birth"])
    writer.replace_live(live)
    info = Info(
        path=str(output),
        pid=profile.pid,
        mode="sampled" if profile.interval_bytes else "exact",
        interval_bytes=profile.interval_bytes,
        start=profile.start,
        duration_seconds=float(times[-1]) if len(times) else 0.0,
        ended="detached",
        entry="import",
        java_version=profile.java_version,
        java_heap=profile.java_heap,
        main_class=profile.program,
        command_line=(source,),
        coverage=profile.lacks,
        probe_version=__version__,
        imported=profile.format,
        births=profile.births,
    )
    writer.replace_info(info)
    writer.finish()
    return info


def _stacks(profile: Profile) -> NumberedStacks:
    depths = np.array([0, *map(len, profile.stacks)], np.int64)
    frames = np.array([frame for stack in profile.stacks for frame in stack], np.int64)
    kinds = np.concatenate((np.ones(1, np.uint8), profile.kinds))
    return NumberedStacks(np.arange(len(depths), dtype=np.int64), kinds, depths, frames)


def _births(profile: Profile) -> NDArray[np.float64]:
    """Births of the rows of `live`, from the levels of each stack; a fall undoes the latest births."""
    births = np.zeros(len(profile.live))
    order = np.argsort(profile.live["stack"], kind="stable")
    stacks, starts, counts = np.unique(profile.live["stack"][order], return_index=True, return_counts=True)
    by_stack = np.argsort(profile.series["stack"], kind="stable")  # by time within a stack
    rows = profile.series[by_stack]
    firsts = np.searchsorted(rows["stack"], stacks, "left")
    ends = np.searchsorted(rows["stack"], stacks, "right")
    # Most stacks do not change after their first file: all their blocks were born there.
    never = ends - firsts == 1
    births[order] = np.repeat(rows["time"][np.minimum(firsts, max(len(rows) - 1, 0))], counts)
    places = zip(*(column[~never].tolist() for column in (starts, counts, firsts, ends)), strict=True)
    for start, count, first, end in places:
        its = rows[first:end]
        # A block that is live now was born when the level last rose above it.
        lowest = np.minimum.accumulate(its["live_blocks"][::-1])[::-1]
        place = (np.arange(count) + 0.5) / count * max(float(lowest[-1]), 1e-9)
        births[order[start : start + count]] = its["time"][
            np.minimum(np.searchsorted(lowest, place), len(its) - 1)
        ]
    return births
