"""Selects the frames of a long stack that a report omits, and names their owners.

The report keeps the function that allocates, the border of native code and Java, the library's outermost
method, the first frames of application code, the outermost frame.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from offheap.analysis.stacks import frames, packages
from offheap.analysis.stacks.blame import blamed as chosen_frame
from offheap.analysis.stacks.blame import entry, position
from offheap.analysis.stacks.callbacks import callback
from offheap.recording.model import Frame

# Lines of a stack: a suspect with its figures fits a screen of about 24 lines.
_MOST = 16
_OF_APPLICATION = 6  # its first frames: the caller's callers tell which request it was
_INNERMOST = 2  # malloc and its caller
_MOST_NAMED = 2  # owners of the omitted frames


@dataclass(frozen=True, slots=True)
class Fold:
    """Frames `start` to `stop` - 1 of a stack; `of`: `io.netty`, `io.netty and the JDK`."""

    start: int
    stop: int
    of: str

    @property
    def text(self) -> str:
        """`... 12 frames of io.netty`."""
        return f"... {self.stop - self.start} frames{f' of {self.of}' if self.of else ''}"


def folds(stack: Sequence[Frame], blamed: Frame) -> tuple[Fold, ...]:
    """The folds of a short view of the stack, innermost first; `blamed`: the frame to look at."""
    if len(stack) <= _MOST:
        return ()
    kept = _essential(stack, blamed)
    # Spare lines show more frames: inner frames first, layers of the allocator and the C++ run time last.
    for index in sorted(range(len(stack)), key=lambda each: frames.is_runtime(stack[each])):
        if len(kept) >= _MOST - 2:
            break
        kept.add(index)
    left_out = [index for index in range(len(stack)) if index not in kept]
    found = []
    for _, run in itertools.groupby(enumerate(left_out), lambda pair: pair[1] - pair[0]):
        indices = [index for _, index in run]
        if len(indices) > 1:
            of = _owners([stack[index] for index in indices])
            found.append(Fold(indices[0], indices[-1] + 1, of))
    return tuple(found)


def _essential(stack: Sequence[Frame], blamed: Frame) -> set[int]:
    last = len(stack) - 1
    kept = {*range(_INNERMOST), frames.allocating(stack), last}
    inside, inner = callback(stack), frames.boundary(stack)
    if inner is not None:
        kept |= {max(inner - 1, 0), inner}
    if inside:
        kept |= {inside.at, inside.at + 1}
        # The application's code that ran at the time of the callback.
        blamed = chosen_frame(stack[inner:]) if inner is not None else blamed
    at = position(stack, blamed)
    if at is not None:
        called = entry(stack, stack[at])
        kept |= {at} if called is None else {at, called}
        own = (index for index in range(at + 1, last) if _may_be_applications(stack[index], stack[at]))
        kept |= set(itertools.islice(own, _OF_APPLICATION - 1))
    return {index for index in kept if index <= last}


def _may_be_applications(frame: Frame, blamed: Frame) -> bool:
    """Whether the frame belongs to the blamed frame's project, or to an unknown one."""
    if frame.kind != "java" or blamed.kind != "java":
        return frame.kind == blamed.kind and frame.module == blamed.module
    if packages.is_generated(frame.name):
        return False
    name = frame.name
    same = packages.project(name) == packages.project(blamed.name)
    return same or not (packages.is_jdk(name) or packages.framework(name))


def _owners(some: Sequence[Frame]) -> str:
    """The owners of most of these frames, most frames first."""
    ranked = [owner for owner, _ in Counter(filter(None, map(_owner, some))).most_common()]
    if len(ranked) > _MOST_NAMED:
        return f"{', '.join(ranked[:_MOST_NAMED])} and others"
    return " and ".join(ranked)


def _owner(frame: Frame) -> str:
    if frame.kind != "java":
        return frame.module
    if packages.is_jdk(frame.name):
        return "the JDK"
    return packages.framework(frame.name) or packages.project(frame.name)
