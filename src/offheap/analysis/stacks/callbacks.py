"""Allocations of an agent, made in one of its callbacks while the JVM runs something else.

HotSpot calls an agent's function at an event (JVMTI: an object was sampled, a thread started).  The Java
frames outside belong to the code that ran at that moment.  The memory is the agent's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from offheap.analysis.stacks import frames
from offheap.recording.model import Frame

# The functions of libjvm that call an agent.  After inlining, only the class that posts the event is left.
_POST = re.compile(r"(?:JvmtiExport|Jvmti\w*Poster)::post_(\w+)")
_COLLECTOR = re.compile(r"~?Jvmti(\w+?)Event(?:Collector|Mark)")
_LOAD_HOOK = re.compile(r"JvmtiClassFileLoadHookPoster|JvmtiExport::post_class_file_load_hook")
_JVMTI = re.compile(r"~?Jvmti")
_START = re.compile(r"Agent_On(?:Load|Attach)|JNI_OnLoad")
_SIGNAL = frozenset({"__restore_rt", "__kernel_rt_sigreturn"})

# Events whose names differ from HotSpot's functions by more than the case of letters.
_EVENTS = {
    "exception_throw": "Exception",
    "vm_initialized": "VMInit",
    "early_vm_start": "VMStart",
    "raw_field_access": "FieldAccess",
    "raw_breakpoint": "Breakpoint",
    "raw_field_modification": "FieldModification",
}


@dataclass(frozen=True, slots=True)
class Callback:
    """A function of an agent that the JVM called.

    at     its index in the stack
    frame  the function
    inner  the agent's function that allocated: `frame` or one that it called
    event  JVMTI's name of the event, `SampledObjectAlloc`; "signal" for a signal handler, "" if unknown
    """

    at: int
    frame: Frame
    inner: Frame
    event: str

    @property
    def of_allocation(self) -> bool:
        """Whether the event is that Java code allocated an object."""
        return self.event.endswith("ObjectAlloc")

    @property
    def name(self) -> str:
        """`libfoo.so callback (SampledObjectAlloc)`."""
        whose = self.frame.module or "agent"
        if self.event == "signal":
            return f"{whose} signal handler"
        return f"{whose} callback ({self.event})" if self.event else f"{whose} callback"


def callback(stack: Sequence[Frame]) -> Callback | None:
    """The callback that allocated; None for an allocation outside a callback."""
    inner, called_by_jvm = None, False
    for index, frame in enumerate(stack):
        if frame.kind == "java":
            inner = index
            break
        called_by_jvm = called_by_jvm or frame.kind == "jvm" or frame.name in _SIGNAL
    if not called_by_jvm:  # as in most stacks
        return None
    end = len(stack) if inner is None else inner
    start = next((index for index in range(end) if _is_agents(stack[index])), None)
    if start is None or not _on_behalf(stack, start):
        return None
    outer = start
    while outer < end and stack[outer].kind == "native":
        if stack[outer].name in _SIGNAL:
            return (
                Callback(outer - 1, stack[outer - 1], stack[start], "signal")
                if _is_agents(stack[outer - 1])
                else None
            )
        outer += 1
    callers = stack[outer:end]
    # Without Java frames libjvm may call a library for other reasons than an event.
    if not callers or callers[0].kind != "jvm" or not _is_agents(stack[outer - 1]):
        return None
    if inner is None and not any(_JVMTI.match(frame.name) for frame in callers if frame.kind == "jvm"):
        return None
    if _START.match(stack[outer - 1].name):
        return None
    return Callback(outer - 1, stack[outer - 1], stack[start], _event(callers))


def _is_agents(frame: Frame) -> bool:
    return frame.kind == "native" and not frames.is_runtime(frame) and not frames.of_jdk_library(frame)


def _on_behalf(stack: Sequence[Frame], start: int) -> bool:
    """Whether the frames inside this one allocated for it: their functions of libjvm are all JVMTI's."""
    first = next((index for index in range(start) if stack[index].kind == "jvm"), None)
    return first is None or frames.asked_by_agent(stack, first)


def _event(callers: Sequence[Frame]) -> str:
    for frame in callers:
        if frame.kind != "jvm":
            break
        if _LOAD_HOOK.match(frame.name):
            return "ClassFileLoadHook"
        if found := _POST.match(frame.name):
            return _EVENTS.get(found[1]) or "".join(
                "VM" if word == "vm" else word.capitalize() for word in found[1].split("_")
            )
        if found := _COLLECTOR.match(frame.name):
            return found[1]
    return ""
