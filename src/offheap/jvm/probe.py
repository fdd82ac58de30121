"""Starting and stopping the probe in a running JVM, and finding it there."""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from offheap.errors import UserError
from offheap.jvm import admission, library, target
from offheap.jvm.attach import AttachedVM, TargetGone
from offheap.jvm.library import probe_library
from offheap.jvm.target import Target
from offheap.proc import maps, opening, root, status
from offheap.proc.maps import Mapping

# The first 88 bytes of a live file, probe/recording.h: magic, version, header_bytes,
# file_bytes, state, mode, entry, and after others the coverage.
_HEADER = struct.Struct("<8sIIQIII44xQ")
_MAGIC = b"OFFHEAP\n"
_RECORDING = 1
_PRELOAD = 1
_SHORT_OF_MEMORY = 1 << 8

# enum probe_error of probe/errors.h
OK = 0
ALREADY_RECORDING = 102
NO_SPACE = 103
CANNOT_CREATE = 104
CANNOT_MAP = 105
NOT_RECORDING = 106
PRELOADED = 109
_OK_AGAIN = 110
_RESULTS: dict[int, tuple[str, str]] = {
    101: ("does not understand the options it was given", "it may be of another version: restart the JVM"),
    ALREADY_RECORDING: ("is already recording", "read its live file, or stop it with `offheap detach`"),
    NO_SPACE: ("found no room for its live file", "free some space in /dev/shm or /tmp"),
    CANNOT_CREATE: ("could not make its live file", "make /dev/shm or /tmp writable for the JVM's user"),
    CANNOT_MAP: ("could not map its live file", "check the JVM's limit of address space (ulimit -v)"),
    NOT_RECORDING: ("is stopped", "`offheap attach` starts it"),
    107: ("could not patch any GOT slot", "start the JVM under the probe with `offheap run`"),
    108: ("got no JVMTI environment from the JVM", "start the JVM under the probe with `offheap run`"),
    111: (
        "was inherited by fork from a recorded process",
        "start the JVM under the probe with `offheap run`",
    ),
    112: ("still has a thread inside it from the last recording", "try again in a moment"),
    114: (
        "has too little room below the memory limit of the JVM's container",
        "raise the limit, or risk that the kernel kills the JVM, with --force",
    ),
    113: ("found no file descriptor for its live file", "raise the JVM's limit of open files (ulimit -n)"),
    PRELOADED: ("was preloaded: it is stopped, and its hooks stay until the process ends", ""),
}


class NotRecording(UserError):
    """The probe is in the process and records nothing."""


@dataclass(frozen=True, slots=True)
class LoadedProbe:
    """The probe in a process.

    libraries  as the process calls them; more than one only if several copies were loaded
    live_file  our path of what it writes, None while it is idle
    preloaded  whether the recording in progress began with the process (LD_PRELOAD)
    """

    libraries: tuple[str, ...]
    live_file: Path | None
    preloaded: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A probe that records.

    how    started: by us; continued: by an earlier attach that never stopped it;
           preloaded: since the process started
    notes  sentences for the user: what was not done the usual way, and why
    """

    pid: int
    live_file: Path
    how: Literal["started", "continued", "preloaded"]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopped:
    """How the probe was left, and our path of what it had written.

    stopped: every function pointer holds its old value; idle: it was preloaded, so its
    hooks stay in place and pass every call on.  `recorder`: PID of the offheap that recorded it until then.
    """

    state: Literal["stopped", "idle"]
    live_file: Path | None
    recorder: int | None = None


def loaded(pid: int, mappings: list[Mapping] | None = None) -> LoadedProbe | None:
    """The probe in a process, None when there is none; PermissionError for another user's process."""
    libraries: dict[str, None] = {}
    live_file: Path | None = None
    preloaded = False
    if mappings is None:
        mappings = maps.read(pid)
    try:
        # Anybody's file may be mapped; what the process itself writes is its own, or root's that it was once.
        owners = {0, status.read(pid).uid}
    except ProcessLookupError:
        return None
    for mapping in mappings:
        if mapping.name == library.NAME:
            libraries[root.as_seen(pid, mapping)] = None
        elif mapping.name.endswith(".live") and "s" in mapping.permissions and not mapping.deleted:
            path = root.mapped_file(pid, mapping)
            entry = _recording_entry(path, owners)
            if entry is not None:
                live_file, preloaded = path, entry == _PRELOAD
    return LoadedProbe(tuple(libraries), live_file, preloaded) if libraries else None


def start(
    pid: int,
    sampling: str = "",
    full: Callable[[Path], str] = lambda folder: "",
    *,
    passing: bool = False,
) -> Started:
    """Makes the probe record in a running JVM, or finds that it does; UserError with the mend if not.

    `sampling` says what is sampled in the words of probe/options.h; "" is the probe's default.
    `full` says what to do about the full file system of a folder, when it knows.  `passing`: what it
    writes is of use to this process alone.
    """
    checked = target.check(pid)
    present = loaded(pid, checked.mappings)
    if present and present.live_file:
        if not passing:
            ask(AttachedVM(pid), present.libraries[0], "keep")
        return _already(pid, present)
    allowed = admission.Allowance() if "force" in sampling.split(",") else admission.admit(pid)
    recorder = "recorder=" + ".".join(map(str, status.identity())) if passing else ""
    sampling = ",".join(word for word in (sampling, allowed.words, recorder) if word)
    # A second copy beside an idle one would be hooked by both: start the one that is there.
    path = present.libraries[0] if present else library.place(checked.status)
    try:
        started = _start(checked, path, sampling, full)
    except UserError:
        library.remove_copy(checked.status, path)
        raise
    if allowed.why and _is_short_of_memory(started.live_file):
        return replace(started, notes=(*started.notes, allowed.why))
    return started


def detach(pid: int, recorder_of: Callable[[Path], int | None] | None = None) -> Stopped:
    """Stops the probe; NotRecording, or UserError when there is none, TargetGone when the JVM has ended.

    `recorder_of` finds who records a live file: when nobody does, what is in it is kept.
    """
    checked = target.check(pid)
    present = loaded(pid, checked.mappings)
    if present is None:
        raise UserError(f"PID {pid} has no probe", "`offheap ps` shows which JVMs have one")
    # Asked while it records: a recorder that sees the end goes away by itself.
    recorder = recorder_of(present.live_file) if recorder_of and present.live_file else None
    vm = AttachedVM(pid)
    if recorder_of and present.live_file and recorder is None:
        ask(vm, present.libraries[0], "keep")
    code = NOT_RECORDING
    for path in present.libraries:
        code = ask(vm, path, "stop")
        if code != NOT_RECORDING:
            break
    if code not in (OK, PRELOADED):
        raise result_error(pid, code)
    for path in present.libraries:
        library.remove_copy(checked.status, path)
    return Stopped("stopped" if code == OK else "idle", present.live_file, recorder)


def trim(pid: int) -> bool:
    """Gives back what glibc keeps, by the probe that is in the JVM; False when there is none."""
    present = loaded(pid)
    if present is None:
        return False
    code = ask(AttachedVM(pid), present.libraries[0], "trim")
    if code != OK:
        raise result_error(pid, code)
    return True


def ask(vm: AttachedVM, path: str, request: str) -> int:
    """Sends the probe what Agent_OnAttach takes, and returns its result; success is always OK."""
    code = vm.load_agent(path, request)
    return OK if code == _OK_AGAIN else code


def result_error(pid: int, code: int, where: str = "") -> UserError:
    """What Agent_OnAttach's result means, for a person; `where` is put behind it."""
    what, mend = _RESULTS.get(
        code, (f"failed with result {code}", "it may be of another version: restart the JVM")
    )
    kind = NotRecording if code == NOT_RECORDING else UserError
    return kind(f"the probe in PID {pid} {what}{where}", mend)


def _start(checked: Target, path: str, options: str, full: Callable[[Path], str]) -> Started:
    process = checked.status
    vm = AttachedVM(process.pid)
    notes: list[str] = []
    mend = ""
    tried: list[str] = []
    code = CANNOT_CREATE
    for directory in live_directories(process.pid):
        name = f"{directory}/offheap-{process.namespace_pid}-{secrets.token_hex(8)}.live"
        # Asked while the process lives: later its name for the file leads nowhere.
        reachable = root.is_ours(process.pid, directory)
        ours = Path(name) if reachable else root.through(process.pid, name)
        try:
            code = ask(vm, path, ",".join(word for word in ("start", f"file={name}", options) if word))
        except TargetGone:
            # It may have begun: nobody knows of what it wrote.
            if reachable:
                ours.unlink(missing_ok=True)
            raise
        if code == OK:
            return Started(process.pid, ours, "started", tuple(notes))
        if code == ALREADY_RECORDING:
            present = loaded(process.pid)
            if present and present.live_file:
                return _already(process.pid, present)
        if code not in (NO_SPACE, CANNOT_CREATE, CANNOT_MAP):
            break
        tried.append(directory + _room(process.pid, directory))
        here = full(root.through(process.pid, directory)) if code == NO_SPACE else ""
        mend = mend or here
        notes.append(f"the probe {_RESULTS[code][0]} in {tried[-1]}" + (f"; {here}" if here else ""))
    error = result_error(process.pid, code, f" in {', '.join(tried)}" if tried else "")
    raise UserError(error.what, mend) if code == NO_SPACE and mend else error


def live_directories(pid: int) -> list[str]:
    """Folders for a live file as the process sees them, best first: tmpfs costs a page fault the least."""
    chosen: list[str] = []
    for folder in ("/dev/shm", status.environment(pid).get("TMPDIR", ""), "/tmp"):
        # A comma would end the probe's option.
        if folder.startswith("/") and "," not in folder and folder not in chosen:
            chosen.append(folder.rstrip("/") or "/")
    return chosen


def _room(pid: int, directory: str) -> str:
    from offheap.quantities import format_size

    try:
        found = os.statvfs(root.through(pid, directory))
    except OSError:
        return ""
    return f" ({format_size(found.f_bavail * found.f_frsize)} free)"


def _already(pid: int, present: LoadedProbe) -> Started:
    assert present.live_file is not None
    if present.preloaded:
        note = f"PID {pid} has had the probe since it started: recording what it writes, options unchanged"
        return Started(pid, present.live_file, "preloaded", (note,))
    note = (
        f"PID {pid} was left recording by an earlier attach: continuing with its live file, options unchanged"
    )
    return Started(pid, present.live_file, "continued", (note,))


def _recording_entry(path: Path, owners: Container[int]) -> int | None:
    """enum offheap_entry of a live file that is being written; None when it is none."""
    fields = _header(path, owners)
    if fields is None:
        return None
    magic, _version, _header_bytes, _file_bytes, state, _mode, entry, _coverage = fields
    return entry if magic == _MAGIC and state == _RECORDING else None


def _is_short_of_memory(path: Path) -> bool:
    fields = _header(path, None)
    return fields is not None and bool(fields[-1] & _SHORT_OF_MEMORY)


def _header(path: Path, owners: Container[int] | None) -> tuple[Any, ...] | None:
    try:
        with opening.regular(path, owners=owners, follow=False) as file:
            raw = file.read_at(0, _HEADER.size)
    except OSError:
        return None
    return _HEADER.unpack(raw) if len(raw) == _HEADER.size else None


__all__ = [
    "LoadedProbe",
    "NotRecording",
    "Started",
    "Stopped",
    "detach",
    "live_directories",
    "loaded",
    "probe_library",
    "result_error",
    "start",
    "trim",
]
