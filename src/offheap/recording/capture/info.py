"""model.Info of a live file: what was recorded, for how long, and what could not be seen."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from offheap.jvm.command_line.command import flags_and_main
from offheap.probe.contract import Coverage, Entry, Mode, State
from offheap.probe.live_files.header import Header
from offheap.recording.masking import masked
from offheap.recording.model import Info, JavaHeapState

Ended = Literal["recording", "detached", "exited", "killed"]

COVERAGE: dict[Coverage, str] = {
    Coverage.BEFORE_ATTACH: "blocks allocated before the attach are not recorded",
    Coverage.NO_DLSYM: "calls through pointers that dlsym returned before the attach "
    "(JNA, foreign function calls) are not recorded",
    Coverage.NO_LDSO: "the dynamic linker's own blocks and the stacks of pthreads are not recorded",
    Coverage.NO_JVM: "the process has no JVM: native frames only",
    Coverage.NO_JAVA_FRAMES: "this JVM has no AsyncGetCallTrace: native frames only",
    Coverage.NO_METHOD_NAMES: "the JVM offers no JVMTI: Java frames have no names",
    Coverage.WAS_IDLE: "the probe was stopped before: up to 256 KiB "
    "of each thread's first allocations are not recorded",
    Coverage.SHORT_OF_MEMORY: "the memory limit of its container left room for small tables only",
    Coverage.CHAINED: "malloc is not libc's: the other allocator's own overhead is not recorded",
}

# Why Java objects that were requested are not followed.
NOT_FOLLOWED: dict[JavaHeapState, str] = {
    "taken": "Java objects were not followed: another agent holds the JVM's allocation sampler",
    "unavailable": "Java objects were not followed: this JVM has no allocation sampler "
    "(JDK 11 and later HotSpot have one)",
}

_SEPARATOR = "\x1f"  # between the arguments, probe/jvm/properties.c


def ended(header: Header, alive: bool) -> Ended:
    """How the recording ended; a process that left no final state was killed."""
    if header.state is State.STOPPED:
        return "detached"
    if header.state is State.EXITED:
        return "exited"
    return "recording" if alive else "killed"


def elapsed(header: Header, alive: bool) -> float:
    """Seconds from the start to the end, or to now while it records."""
    if header.stop_monotonic:
        end = header.stop_monotonic
    elif alive:
        end = time.clock_gettime(time.CLOCK_MONOTONIC)
    else:
        end = header.heartbeat
    return max(0.0, end - header.start_monotonic)


def describe(
    path: Path,
    header: Header,
    *,
    alive: bool,
    duration: float,
    properties: Mapping[str, str],
    command_line: Sequence[str] = (),
    problems: Sequence[str] = (),
    live_time: float = 0.0,
    memory_limit: int = 0,
    after_collection: bool = False,
    keep_arguments: bool = False,
) -> Info:
    """All that is known about a recording.

    `command_line` as /proc gave it, () when it is gone; `problems`: sentences about missing symbols;
    `live_time`, `memory_limit` and `after_collection` as Info has them; `keep_arguments`: values that look
    like secrets are not masked.
    """
    # The probe notes it too, cut when it is very long.
    noted = properties.get("cmdline", "")
    command_line = tuple(command_line) or (tuple(noted.split(_SEPARATOR)) if noted else ())
    flags, main = flags_and_main(command_line)
    command = properties.get("sun.java.command", "")
    java = properties.get("java.version") or properties.get("java.vm.version") or ""
    described = Info(
        path=str(path),
        pid=header.pid,
        mode="exact" if header.mode is Mode.EXACT else "sampled",
        interval_bytes=header.interval_bytes,
        start=header.start,
        duration_seconds=duration,
        ended=ended(header, alive),
        entry=_ENTRIES[header.entry],
        java_version=java,
        main_class=command.split(" ", 1)[0] if command else main if java else "",
        command_line=command_line,
        jvm_flags=flags if java else (),
        properties={key: value for key, value in properties.items() if key != "cmdline"},
        lost=dict(header.losses),
        joined=header.joined,
        coverage=(
            *(COVERAGE[bit] for bit in Coverage if bit in header.coverage and bit in COVERAGE),
            *_java_heap(header),
            *problems,
        ),
        probe_version=header.probe_version,
        live_time=live_time,
        budget=header.budget,
        java_heap=header.java_heap,
        memory_limit=memory_limit,
        process_age=_age(header),
        after_collection=after_collection,
        arguments_kept=keep_arguments,
    )
    return described if keep_arguments else masked(described)


def _java_heap(header: Header) -> tuple[str, ...]:
    words = NOT_FOLLOWED.get(header.java_heap.state) if header.java_heap else None
    return (words,) if words else ()


def _age(header: Header) -> float:
    """Seconds that the process had run when recording began; too few where the machine slept before."""
    return max(0.0, header.start_monotonic - header.process_start / os.sysconf("SC_CLK_TCK"))


_ENTRIES: dict[Entry, Literal["preload", "agentpath", "attach"]] = {
    Entry.PRELOAD: "preload",
    Entry.AGENTPATH: "agentpath",
    Entry.ATTACH: "attach",
}
