"""Who wanted the memory, by stack: HotSpot itself, or code whose memory a Java object may own.

The tests are those of `frames`.  A ranking applies them to every stack, so a test of the distinct frames
rules out most stacks first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.stacks import frames, jvm_structures
from offheap.recording.model import Frame, Recording

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Origins:
    """By stack, in the order of the request.

    by_jvm   HotSpot wanted the memory for itself: no handle of the application (`jvm_structures`)
    on_jvm_threads  as `by_jvm`, without a request of a Java method
    java_heap  as `by_jvm`, pages of the Java heap
    owned    a Java object of the JDK owns the memory
    below    a Java object may own the memory
    classes  HotSpot wanted it for classes that a Java method loaded
    """

    by_jvm: Bools
    on_jvm_threads: Bools
    java_heap: Bools
    owned: Bools
    below: Bools
    classes: Bools


def origins(recording: Recording, stacks: NDArray[np.int64]) -> Origins:
    """The origins of these stacks, by number."""
    distinct = recording.frames
    java, jvm, native = (
        np.array([frame.kind == kind for frame in distinct], np.bool_) for kind in ("java", "jvm", "native")
    )
    named_java = native & np.array([frame.name.startswith("Java_") for frame in distinct], np.bool_)
    pages = jvm & np.array([jvm_structures.of_pages(frame) for frame in distinct], np.bool_)
    owner = java & np.array([frames.is_owner(frame) for frame in distinct], np.bool_)
    has = _Having(recording, stacks)
    has_java, has_jvm = has.any(java), has.any(jvm)

    def ask(question: Callable[[Sequence[Frame]], bool], of: Bools) -> Bools:
        answers: Bools = of.copy()
        for place in np.flatnonzero(of).tolist():
            answers[place] = question(recording.stack(stacks.item(place)))
        return answers

    # The JDK's own libraries act for HotSpot if no Java method is known.
    hotspot = ask(frames.by_jvm, has_jvm | ~has_java)
    by_jvm = hotspot & ~ask(jvm_structures.is_handle, hotspot)
    return Origins(
        by_jvm=by_jvm,
        on_jvm_threads=by_jvm & ~has_java,
        java_heap=ask(jvm_structures.is_java_heap, by_jvm & has.any(pages)),
        owned=(owned := ask(frames.owned_by_object, has.any(owner) & ~by_jvm)),
        below=owned | (~hotspot & (has_java | has.any(named_java))),
        classes=ask(jvm_structures.is_of_classes, by_jvm & has_java),
    )


class _Having:
    """Whether stacks have a frame of a kind: by sums over the frames of all stacks at once."""

    def __init__(self, recording: Recording, stacks: NDArray[np.int64]) -> None:
        self._frames = recording.stack_frames
        self._low, self._high = recording.stack_offsets[stacks], recording.stack_offsets[stacks + 1]

    def any(self, wanted: Bools) -> Bools:
        """`wanted`: by distinct frame."""
        summed = np.concatenate((np.zeros(1, np.int32), np.cumsum(wanted[self._frames], dtype=np.int32)))
        found: Bools = summed[self._high] > summed[self._low]
        return found
