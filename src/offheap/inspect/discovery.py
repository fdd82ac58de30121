"""Finds the JVMs of this machine, and the one that "PID|NAME" means."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from offheap.errors import UserError
from offheap.jvm.command_line import command, jar_manifest
from offheap.jvm.counters import hsperfdata
from offheap.jvm.counters.hsperfdata import PerfData
from offheap.jvm.listener import target
from offheap.jvm.listener.attach_listener import NoProcess
from offheap.probe import control
from offheap.proc import maps, opening, root, status
from offheap.proc.maps import Mapping
from offheap.proc.status import Status
from offheap.proc.time_limit import within

_ENDINGS = (".offheap", ".live")
_SECONDS = 10.0  # for one process, which takes a millisecond
_MOST_RELEASE = 65536  # bytes of a JDK's `release` file, which has some 2,000

Recorded = Literal["no", "idle", "recording", "unknown"]


@dataclass(frozen=True, slots=True)
class JVM:
    """One JVM, with the data that this user may see.

    namespace_pid  the PID inside its container, equal to `pid` outside one
    java_version   "" without the right to read it
    main           main class, module/class or jar; "" when unknown
    main_class     for a jar, the class in its manifest; "" otherwise and when unknown
    recorded       "idle": the probe is loaded but stopped; "unknown": another user's
    live_file      the probe's file, "" unless recording
    """

    pid: int
    namespace_pid: int
    user: str
    java_version: str
    main: str
    rss_bytes: int
    uptime_seconds: float
    recorded: Recorded
    live_file: str = ""
    main_class: str = ""

    @property
    def title(self) -> str:
        """The text that NAME may be a part of."""
        return f"{self.main} ({self.main_class})" if self.main_class else self.main

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.main, self.main_class) if name)


def find_all() -> list[JVM]:
    """Every JVM, by PID; other users' JVMs are found by their command line alone.

    The same holds for JVMs whose inspection does not return in time.
    """
    return [jvm for pid in status.pids() if (jvm := _find_in_time(pid)) is not None]


def _find_in_time(pid: int) -> JVM | None:
    try:
        return within(_SECONDS, lambda: find(pid))
    except TimeoutError:
        pass
    try:
        return _from_command_line(status.read(pid))
    except ProcessLookupError:
        return None


def find(pid: int) -> JVM | None:
    """The JVM with that PID; None if the process is no JVM or has ended."""
    try:
        process = status.read(pid)
        if not process.alive:
            return None
        mappings = maps.read(pid)
    except ProcessLookupError:
        return None
    except PermissionError:
        return _from_command_line(process)
    if not target.has_libjvm(mappings):
        return None
    performance = hsperfdata.read(pid, process.namespace_pid, mappings)
    loaded = control.loaded(pid, mappings)
    main = _main(process, performance)
    return JVM(
        pid=pid,
        namespace_pid=process.namespace_pid,
        user=process.user,
        java_version=(performance.java_version if performance else "") or _version_of_home(pid, mappings),
        main=command.short(main),
        main_class=jar_manifest.main_class(pid, main) if main.endswith(".jar") else "",
        rss_bytes=process.rss_bytes,
        uptime_seconds=process.uptime_seconds,
        recorded="no" if loaded is None else "recording" if loaded.live_file else "idle",
        live_file=str(loaded.live_file) if loaded and loaded.live_file else "",
    )


def resolve(text: str) -> int:
    """The PID that "PID|NAME" means: a number, or a part of one JVM's main class or jar name.

    A number is always a PID, JVM or not; UserError when a name fits no JVM or several.
    """
    if text.isdecimal():
        pid = int(text)
        if not os.path.isdir(f"/proc/{pid}"):
            raise NoProcess(pid)
        return pid
    found = _named(text)
    if not found:
        raise UserError(
            f"no JVM has {text!r} in the name of its main class or jar", "`offheap ps` lists the JVMs"
        )
    return _only(text, found).pid


def resolve_or_path(text: str) -> tuple[int | Path, str]:
    """The meaning of "PID|NAME|RECORDING", and a sentence if it could also be a file.

    A number is a PID even if such a file exists; a path or a name with a recording's ending is a file.  If a
    JVM and a file share a name, it is the JVM: only the file has another spelling.
    """
    path = Path(text)
    if not text.isdecimal() and ("/" in text or text in (".", "..") or path.suffix in _ENDINGS):
        return path, ""
    if text.isdecimal() or not path.exists():
        return resolve(text), ""
    found = _named(text)
    if not found:
        return path, ""
    jvm = _only(text, found, f", or ./{text} for the file of that name")
    return jvm.pid, f"{text} is PID {jvm.pid}, {jvm.title}; for the file of that name write ./{text}"


def _named(text: str) -> list[JVM]:
    wanted = text.casefold()
    return [jvm for jvm in find_all() if wanted and any(wanted in name.casefold() for name in jvm.names)]


def _only(text: str, found: list[JVM], other: str = "") -> JVM:
    """The JVM that the name fits best; UserError when it fits several equally well."""
    exact = [jvm for jvm in found if any(text in (name, name.rpartition(".")[2]) for name in jvm.names)]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    candidates = ", ".join(f"{jvm.pid} {jvm.title}" for jvm in found[:8])
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    raise UserError(
        f"{text!r} fits {len(found)} JVMs: {candidates}{more}", f"give the PID, or more of the name{other}"
    )


def _from_command_line(process: Status) -> JVM | None:
    """Another user's JVM: every user may read /proc/PID/cmdline, but not the memory map."""
    arguments = status.command_line(process.pid)
    if not arguments or arguments[0].rpartition("/")[2] != "java":
        return None
    return JVM(
        pid=process.pid,
        namespace_pid=process.namespace_pid,
        user=process.user,
        java_version="",
        main=command.short(_main(process, None)),
        rss_bytes=process.rss_bytes,
        uptime_seconds=process.uptime_seconds,
        recorded="unknown",
    )


def _main(process: Status, performance: PerfData | None) -> str:
    arguments = status.command_line(process.pid)
    launched = bool(arguments) and arguments[0].rpartition("/")[2] == "java"
    main = command.main_of(arguments) if launched else ""
    if not main and performance:
        main = command.main_of_command(performance.java_command)
    # The best name of a program that embeds a JVM is its own.
    return main or ("" if launched else process.name)


def _version_of_home(pid: int, mappings: list[Mapping]) -> str:
    """JAVA_VERSION in the JDK's `release` file, three folders above lib/server/libjvm.so."""
    for mapping in mappings:
        if mapping.name != "libjvm.so":
            continue
        library = root.mapped_file(pid, mapping)
        for home in library.parents[2:5]:  # JDK 8 has lib/amd64/server and a jre folder between
            version = _release_version(home / "release")
            if version:
                return version
        return ""
    return ""


def _release_version(path: Path) -> str:
    try:
        text = opening.head(path, _MOST_RELEASE).decode(errors="replace")
    except OSError:
        return ""
    match = re.search(r'^JAVA_VERSION="([^"]{1,64})"', text, re.MULTILINE)
    return match[1] if match else ""
