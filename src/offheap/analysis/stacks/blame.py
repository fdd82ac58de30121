"""Finds the frame of a stack that a person should read first, and the library function that it called.

The innermost method outside the JDK is mostly a library's: a driver, a codec, a pool.  The code that forgot
to free is further out.  The innermost methods outside the JDK that share packages are the library; the
application is the caller of the library that is no framework (`packages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from offheap.analysis.stacks import cxx_names, frames, packages
from offheap.analysis.stacks.callbacks import callback
from offheap.analysis.stacks.packages import Application
from offheap.recording.model import Frame

NOBODY = Application()


# Flags of a frame.
JAVA, JDK, SURE, MAYBE, NATIVE, LINED, GAP = 1, 2, 4, 8, 16, 32, 64


class Trait(NamedTuple):
    """Traits of a frame: `flags` from above; `project` of a Java method outside the JDK, else ""."""

    flags: int
    project: str


def trait(frame: Frame, application: Application) -> Trait:
    """SURE: certainly the application's; MAYBE: perhaps; GAP: unknown methods inlined into the next frame."""
    if frame.kind != "java":
        return _NATIVE if frame.kind == "native" else _GAP if frames.is_gap(frame) else _OTHER
    key = frame.name, frame.line > 0
    known = application.traits.get(key)
    if known is None:
        known = application.traits[key] = _java_trait(frame, application)
    return known


_NATIVE, _GAP, _OTHER = Trait(NATIVE, ""), Trait(GAP, ""), Trait(0, "")


def _java_trait(frame: Frame, application: Application) -> Trait:
    flags = JAVA | (LINED if frame.line else 0)
    sure = application.has(frame)
    flags |= SURE | MAYBE if sure else MAYBE if application.may_have(frame) else 0
    if packages.is_jdk(frame.name):
        return Trait(flags | JDK, "")
    return Trait(flags, packages.project(frame.name))


def blamed(stack: Sequence[Frame], application: Application = NOBODY) -> Frame:
    """The frame to look at: the application's frame that called the library, else the best available one.

    In an agent's callback it is the agent's innermost function.  Without Java frames it is the
    innermost native function outside the C and C++ run times.
    """
    if not stack:
        return Frame("no stack", "unknown")
    if inside := callback(stack):
        return inside.inner
    at = blamed_index(trait(frame, application) for frame in stack)
    if at is not None:
        return stack[at]
    candidates = [
        frame for frame in stack[frames.allocating(stack) :] if frame.kind not in ("unknown", "class")
    ]
    for frame in candidates:
        if not frames.is_runtime(frame):
            if frames.of_jdk_library(frame):
                return frame._replace(kind="jvm")
            return frame
    return candidates[0] if candidates else stack[0]


def blamed_index(traits: Iterable[Trait]) -> int | None:
    """The index of the Java method to look at, by the traits of a stack; None without Java frames."""
    # It is unknown which of the inlined methods made the call.
    gap, native = False, -1
    # Fast path: the method is mostly a few frames from the inside.
    stack: list[Trait] = []
    for index, one in enumerate(traits):
        stack.append(one)
        if one.flags & SURE and not gap:
            if native >= 0 or not _is_native_method(stack, index):
                return index
            native = index
        gap = bool(one.flags & GAP)
    if native >= 0:
        return native
    java = [index for index, one in enumerate(stack) if one.flags & JAVA]
    others = [index for index in java if not stack[index].flags & JDK]
    if not others:
        return java[0] if java else None
    library = stack[others[0]].project
    exact = [index for index in others if not stack[index - 1].flags & GAP or not index]
    for some in (exact, others):
        own = [index for index in some if stack[index].flags & MAYBE]
        sure = [index for index in own if stack[index].flags & SURE]
        outside = [index for index in own if stack[index].project != library]
        # Without a caller of another project the library is the application itself, or runs on its own.
        if own:
            return _caller(stack, sure or outside or own)
    return others[0]


def _caller(stack: Sequence[Trait], own: Sequence[int]) -> int:
    """The innermost of `own`; for a native method the next one, since a native method acts for its caller."""
    return own[1] if len(own) > 1 and _is_native_method(stack, own[0]) else own[0]


def _is_native_method(stack: Sequence[Trait], index: int) -> bool:
    """Whether native code is inside a Java method that has no lines."""
    return index > 0 and bool(stack[index - 1].flags & NATIVE) and not stack[index].flags & LINED


def _is_native(stack: Sequence[Frame], index: int) -> bool:
    return index > 0 and stack[index - 1].kind == "native" and not stack[index].line


def nobody_called(stack: Sequence[Frame], application: Application = NOBODY) -> str:
    """A note that a stack of Java frames has no application code; "" if it may have, or in a callback."""
    if any(trait(frame, application).flags & SURE for frame in stack) or callback(stack):
        return ""
    java = [frame for frame in stack if frame.kind == "java"]
    if not java:
        return ""
    own = [frame for frame in java if application.may_have(frame)]
    if not own:
        runs = packages.framework(java[-1].name) or next(
            (packages.framework(frame.name) for frame in reversed(java) if packages.framework(frame.name)), ""
        )
        return f"no application code is on the stack{f', {runs} runs it by itself' if runs else ''}"
    projects = {packages.project(frame.name) for frame in own}
    if application.packages and len(projects) == 1:
        return f"no code of {' or '.join(application.packages)} is on the stack"
    return ""


def entry(stack: Sequence[Frame], chosen: Frame) -> int | None:
    """The index of the library's outermost method inside the frame to look at.

    None if that frame made the allocation, by its own native method or function.
    """
    at = position(stack, chosen)
    if at is None or chosen.kind != "java":
        return None
    inner = [index for index in range(at) if stack[index].kind == "java" and not frames.is_glue(stack[index])]
    if not inner:
        return None
    others = [index for index in inner if not packages.is_jdk(stack[index].name)]
    if not others:
        return inner[-1]
    library = packages.project(stack[others[0]].name)
    if library == packages.project(chosen.name) and not packages.framework(stack[others[0]].name):
        return inner[0] if _is_native(stack, inner[0]) else _jdk_entry(stack, inner)
    of_library = [index for index in others if packages.project(stack[index].name) == library]
    named = [index for index in of_library if not packages.is_synthetic(stack[index].name)]
    return (named or of_library)[-1]


def _jdk_entry(stack: Sequence[Frame], inner: Sequence[int]) -> int | None:
    """The JDK's outermost method of those without another Java method inside."""
    last = None
    for index in inner:
        if not packages.is_jdk(stack[index].name):
            break
        last = index
    return last


def called(stack: Sequence[Frame], chosen: Frame) -> Frame | None:
    """`entry` as a frame."""
    at = entry(stack, chosen)
    return None if at is None else stack[at]


def position(stack: Sequence[Frame], frame: Frame) -> int | None:
    """The index of this frame in the stack; by name if its line or kind differs there."""
    by_name = None
    for index, each in enumerate(stack):
        if each == frame:
            return index
        if by_name is None and each.name == frame.name:
            by_name = index
    return by_name


def through(stack: Sequence[Frame], chosen: Frame) -> str:
    """`java.util.zip.Inflater.<init>, called by com.example.Foo.bar`; one name if both are the same.

    For an agent's callback `libfoo.so callback (SampledObjectAlloc), in remember`.
    """
    if inside := callback(stack):
        return f"{inside.name}, in {short(chosen)}"
    library, name = called(stack, chosen), short(chosen)
    if library is not None:
        return f"{short(library)}, called by {name}"
    at = position(stack, chosen)
    if at is None:
        return name
    if frames.is_inexact(stack, at):
        return f"a method inlined into {name}"
    inlined = next((index for index in range(at) if frames.is_inexact(stack, index)), None)
    return name if inlined is None else f"a method inlined into {short(stack[inlined])}, called by {name}"


def short(frame: Frame) -> str:
    """The frame's name, short enough for a sentence."""
    return frame.name if frame.kind == "java" else cxx_names.short(frame.name)
