"""Every stack of two moments, merged where its functions match by name: for a differential flame graph."""

from __future__ import annotations

import numpy as np

from offheap.analysis.diff.comparison import ComparedSide
from offheap.analysis.diff.results import StackChanges
from offheap.analysis.sites.results import SiteKind
from offheap.analysis.sites.sites import kind_of
from offheap.recording.model import Frame


def stack_changes(old: ComparedSide, new: ComparedSide, function_count: int) -> StackChanges:
    """Stacks that hold memory in either; `function_count`: of the matching that numbered both's."""
    # The last frame met of a function stands for it: NEW's, whose lines are today's.
    shown = [Frame("?", "unknown")] * function_count
    numbers: dict[tuple[SiteKind, tuple[int, ...]], int] = {}
    held: list[list[float]] = []
    for side, moment in enumerate((old, new)):
        recording = moment.recording
        functions = moment.functions.tolist()
        for frame, function in zip(recording.frames, functions, strict=True):
            if function >= 0:
                shown[function] = frame
        flat, offsets = recording.stack_frames.tolist(), recording.stack_offsets.tolist()
        bytes_ = moment.live.bytes / moment.divisor
        for stack in np.flatnonzero(bytes_ > 0).tolist():
            kind = kind_of(recording, stack)
            own = (functions[frame] for frame in flat[offsets[stack] : offsets[stack + 1]])
            key = (kind, tuple(function for function in own if function >= 0))
            number = numbers.setdefault(key, len(numbers))
            if number == len(held):
                held.append([0.0, 0.0])
            held[number][side] += float(bytes_[stack])
    return StackChanges(
        functions=tuple(shown),
        kinds=tuple(kind for kind, _path in numbers),
        paths=tuple(path for _kind, path in numbers),
        old_bytes=tuple(pair[0] for pair in held),
        new_bytes=tuple(pair[1] for pair in held),
    )
