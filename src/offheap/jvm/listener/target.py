"""Whether a process is a JVM that the probe can enter: checked before offheap sends anything to it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from offheap.errors import UserError
from offheap.jvm.counters import hsperfdata
from offheap.jvm.counters.hsperfdata import PerfData
from offheap.jvm.listener import attach_listener
from offheap.proc import maps, status
from offheap.proc.images import executable
from offheap.proc.images.executable import Executable
from offheap.proc.maps import Mapping
from offheap.proc.status import Status

# The java launcher maps libjvm.so a few milliseconds after exec.
_LAUNCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Target:
    """A JVM that offheap may attach to; `performance` is None when the JVM publishes nothing."""

    status: Status
    mappings: list[Mapping]
    performance: PerfData | None


def check(pid: int) -> Target:
    """UserError with the reason and the mend when offheap cannot attach to the process."""
    try:
        process = status.read(pid)
    except ProcessLookupError:
        process = None
    if process is None or not process.alive:
        raise attach_listener.NoProcess(pid)
    check_user(process)
    try:
        mappings = _await_libjvm(process)
        kind = executable.read(Path(f"/proc/{pid}/exe"))
    except PermissionError:
        raise UserError(
            f"PID {pid} has more rights than this user and hides its memory map", with_more_rights()
        ) from None
    except (ProcessLookupError, FileNotFoundError):
        raise attach_listener.TargetGone(pid, "reading it") from None
    check_loadable(pid, kind, mappings)
    check_hotspot(process, mappings)
    performance = hsperfdata.read(pid, process.namespace_pid, mappings)
    attach_listener.refuse_disabled(process, mappings, performance.attachable if performance else None)
    process = attach_listener.refresh(process, "reading it")
    attach_listener.refuse_stopped(process)
    return Target(process, mappings, performance)


def with_more_rights() -> str:
    """How to read a process that hides its memory: root in a container may lack the right as well."""
    if os.geteuid() != 0:
        return "run offheap as root"
    return "root lacks a capability here: run offheap outside of its container, or add SYS_PTRACE to it"


def check_user(process: Status) -> None:
    """UserError unless this user is root or the process's user."""
    if os.geteuid() not in (0, process.uid):
        raise UserError(
            f"PID {process.pid} belongs to {process.user}",
            f"run offheap as that user or as root: sudo -u {process.user} offheap ...",
        )


def check_loadable(pid: int, kind: Executable, mappings: list[Mapping]) -> None:
    """UserError unless the probe fits: it is 64-bit code for glibc and for this machine."""
    if kind.bits != 64:
        raise UserError(
            f"PID {pid} is a {kind.bits}-bit process ({kind.machine}), the probe is 64-bit",
            "use a 64-bit JVM",
        )
    ours = os.uname().machine.replace("_", "-")
    if kind.machine != ours:
        raise UserError(
            f"PID {pid} runs {kind.machine} code, the probe is for {ours}", "install offheap for that machine"
        )
    if kind.musl or any(mapping.name.startswith("ld-musl-") for mapping in mappings):
        raise UserError(
            f"PID {pid} uses the musl C library (Alpine), the probe needs glibc",
            "use a glibc-based image, such as eclipse-temurin:21 in place of eclipse-temurin:21-alpine",
        )


def check_hotspot(process: Status, mappings: list[Mapping]) -> None:
    """UserError for other JVMs: the attach protocol is HotSpot's own."""
    if not has_libjvm(mappings):
        raise UserError(
            f"PID {process.pid} ({process.name}) is not a JVM",
            "a native program can be recorded from its start: offheap run -- COMMAND",
        )
    if any(mapping.name.startswith("libj9vm") for mapping in mappings):
        raise UserError(
            f"PID {process.pid} is an OpenJ9 JVM, whose attach protocol offheap does not speak",
            "start it under the probe with `offheap run`",
        )


def has_libjvm(mappings: list[Mapping]) -> bool:
    """Whether a JVM is loaded, by the java launcher or by a program that embeds one."""
    return any(mapping.name == "libjvm.so" for mapping in mappings)


def _await_libjvm(process: Status) -> list[Mapping]:
    deadline = time.monotonic() + _LAUNCH_SECONDS
    while True:
        mappings = maps.read(process.pid)
        if has_libjvm(mappings) or time.monotonic() > deadline or not _is_launcher(process.pid):
            return mappings
        attach_listener.refuse_stopped(process)
        time.sleep(0.01)
        process = attach_listener.refresh(process, "waiting for it to start")


def _is_launcher(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "java"
    except OSError:
        return False
