"""Which stacks are one site, by their frames alone: `born_together` joins some of these sites.

Two stacks belong together if they are of one kind (malloc, mmap) and

- are inside the same callback of an agent for the same event, with any Java code outside it
- with Java frames: agree in all of these, by name and line, with any native functions inside them.
  Outside the frame to look at (`blame`) only the frames that may be the application's have to agree, since a
  framework calls one handler on several paths.  For HotSpot's own memory all frames outside the native
  function that Java called have to agree
- without Java frames: agree in everything outside the allocator's wrappers and the C++ run time, in the
  innermost function by name, in its callers by name and line.

The class of a Java object is one of the frames that have to agree: objects of two classes that one method
allocates are two sites.

Frames that the JVM generates during warm-up (reflection, method handles) and the numbers of hidden classes
do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.stacks import frames
from offheap.analysis.stacks.blame import MAYBE, Trait, blamed_index, trait
from offheap.analysis.stacks.callbacks import callback
from offheap.analysis.stacks.packages import Application
from offheap.recording.model import Recording

_CALLBACK, _OUTSIDE = "callback", "outside"

_Key = tuple[int | str, ...]


@dataclass(frozen=True)
class Grouping:
    """Which stack belongs to which site.

    of_stack  site number by stack number
    members   stack numbers by site number
    """

    of_stack: NDArray[np.int64]
    members: list[list[int]]


@dataclass(frozen=True)
class Traits:
    """Properties of frames, computed once per distinct frame, not per occurrence in 10,000 stacks.

    identity  a number by name and line
    function  a number by name alone
    blame     the traits that `blame` uses
    maybe     whether the frame may be the application's
    """

    identity: list[int]
    function: list[int]
    blame: list[Trait]
    maybe: list[bool]
    java: list[bool]
    jvm: list[bool]
    classes: list[bool]
    glue: list[bool]
    runtime: list[bool]

    @classmethod
    def of(cls, recording: Recording) -> Traits:
        application = Application.of(recording.info)
        names: dict[tuple[str, int, str], int] = {}
        functions: dict[tuple[str, str], int] = {}
        identity, function = [], []
        for frame in recording.frames:
            module = "" if frame.kind == "java" else frame.module
            name = frames.stable_name(frame)
            identity.append(names.setdefault((name, frame.line, module), len(names)))
            # Negative numbers never collide with identities.
            function.append(-1 - functions.setdefault((name, module), len(functions)))
        blame = [trait(frame, application) for frame in recording.frames]
        return cls(
            identity=identity,
            function=function,
            blame=blame,
            maybe=[bool(each.flags & MAYBE) for each in blame],
            java=[frame.kind == "java" for frame in recording.frames],
            jvm=[frame.kind == "jvm" for frame in recording.frames],
            classes=[frame.kind == "class" for frame in recording.frames],
            glue=[frames.is_glue(frame) for frame in recording.frames],
            runtime=[
                frame.kind != "java" and (frames.is_wrapper(frame) or frames.is_runtime(frame))
                for frame in recording.frames
            ],
        )


@dataclass(frozen=True)
class Framed:
    """The grouping by frames alone.

    callers  by site, the method to look at and the application's frames outside it; None for sites of no
             method, of HotSpot itself or of an agent
    """

    grouping: Grouping
    callers: list[_Key | None]


def by_frames(recording: Recording, traits: Traits) -> Framed:
    """Sort the stacks into sites; one pass over the frames of each stack."""
    callers: list[_Key | None] = []
    numbers: dict[_Key, int] = {}
    members: list[list[int]] = []
    stacks = len(recording.stack_offsets) - 1
    of_stack = np.zeros(stacks, np.int64)
    indices = recording.stack_frames.tolist()
    offsets = recording.stack_offsets.tolist()
    kinds = recording.stack_kinds.tolist()
    for stack in range(stacks):
        own = indices[offsets[stack] : offsets[stack + 1]]
        key, caller = _key(recording, traits, stack, own)
        of_class = (traits.identity[own[0]],) if own and traits.classes[own[0]] else ()
        number = numbers.setdefault((kinds[stack], *of_class, *key), len(numbers))
        if number == len(members):
            members.append([])
            callers.append(caller and (kinds[stack], *of_class, *caller))
        members[number].append(stack)
        of_stack[stack] = number
    return Framed(Grouping(of_stack, members), callers)


def _key(recording: Recording, traits: Traits, stack: int, own: list[int]) -> tuple[_Key, _Key | None]:
    """The frames that the stacks of a site share, and `Framed.callers`."""
    inner = next((i for i, index in enumerate(own) if traits.java[index]), None)
    native = own[:inner]
    # This test is cheap and rules out most stacks, which have no function of libjvm.
    jvm = any(map(traits.jvm.__getitem__, native))
    if jvm and (inside := callback(recording.stack(stack))):
        return (_CALLBACK, traits.function[own[inside.at]], inside.event), None
    if inner is None:
        start = next((i for i, index in enumerate(own) if not traits.runtime[index]), None)
        if start is None:
            start = max(len(own) - 1, 0)
        # The innermost function may call the allocator on several lines, which are one site.
        innermost = (traits.function[own[start]],) if own else ()
        return (*innermost, *(traits.identity[index] for index in own[start + 1 :])), None
    if jvm and frames.by_jvm(recording.stack(stack)):
        java = (traits.identity[index] for index in own[inner:] if not traits.glue[index])
        return (traits.function[own[inner - 1]], *java), None
    at = blamed_index(list(map(traits.blame.__getitem__, own)))
    assert at is not None  # there is a Java frame
    identity, glue, maybe = traits.identity, traits.glue, traits.maybe
    if not maybe[own[at]]:
        return tuple([identity[index] for index in own[inner:] if not glue[index]]), None
    inside_ = [identity[index] for index in own[inner : at + 1] if not glue[index]]
    outside = [identity[index] for index in own[at + 1 :] if maybe[index]]
    return (*inside_, _OUTSIDE, *outside), (traits.function[own[at]], *outside)
