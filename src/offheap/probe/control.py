"""Starts, stops and finds the probe in a running JVM."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from offheap.errors import UserError
from offheap.jvm.listener import target
from offheap.jvm.listener.attach import AttachedVM, TargetGone
from offheap.jvm.listener.target import Target
from offheap.probe import admission, library
from offheap.probe.live_files.folders import for_attach
from offheap.probe.live_files.peek import PRELOAD, is_short_of_memory, recording_entry
from offheap.proc import maps, opening, root, status
from offheap.proc.maps import Mapping
from offheap.proc.time_limit import within

# enum probe_error of probe/errors.h
OK = 0
ALREADY_RECORDING = 102
NO_SPACE = 103
CANNOT_CREATE = 104
CANNOT_MAP = 105
NOT_RECORDING = 106
PRELOADED = 109
NO_PROFILER = 115
NO_JFR = 116
JFR_IDLE = 117
JFR_FAILED = 118
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
    NO_PROFILER: (
        "found no jemalloc that profiles: it does not serve malloc there, or prof:true is not set",
        "start the program with `offheap jemalloc run`",
    ),
    NO_JFR: ("found no module jdk.jfr in the JVM", "add it: --add-modules jdk.jfr"),
    JFR_IDLE: ("found no JFR recording that takes its events", "start one: jcmd PID JFR.start"),
    JFR_FAILED: ("could not commit its JFR events", "record without --jfr"),
    PRELOADED: ("was preloaded: it is stopped, and its hooks stay until the process ends", ""),
}


class NotRecording(UserError):
    """The probe is in the process but does not record."""


@dataclass(frozen=True, slots=True)
class LoadedProbe:
    """The probe in a process.

    libraries  paths as the process sees them; more than one only if it has loaded several copies
    live_file  path of its live file as seen from here, None while nothing is recorded
    preloaded  whether the recording in progress began with the process (LD_PRELOAD)
    """

    libraries: tuple[str, ...]
    live_file: Path | None
    preloaded: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A probe that records.

    how    started: by this call; continued: by an earlier attach that did not stop it;
           preloaded: since the process started
    notes  sentences for the user: deviations from the usual way, with reasons
    """

    pid: int
    live_file: Path
    how: Literal["started", "continued", "preloaded"]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopped:
    """The state of the probe after its stop, and the path of its live file as seen from here.

    stopped: every function pointer has its old value; idle: the probe was preloaded, so its
    hooks stay in place and forward every call.  `recorder`: PID of the offheap that was recording.
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
        # The process may map any user's file; a live file that it writes belongs to its user, or to root
        # if it was root at first.
        owners = {0, status.read(pid).uid}
    except ProcessLookupError:
        return None
    for mapping in mappings:
        if mapping.name == library.NAME:
            libraries[root.as_seen(pid, mapping)] = None
        elif mapping.name.endswith(".live") and "s" in mapping.permissions and not mapping.deleted:
            path = root.mapped_file(pid, mapping)
            entry = recording_entry(path, owners)
            if entry is not None:
                live_file, preloaded = path, entry == PRELOAD
    return LoadedProbe(tuple(libraries), live_file, preloaded) if libraries else None


def start(
    pid: int,
    sampling: str = "",
    full: Callable[[Path], str] = lambda folder: "",
    *,
    passing: bool = False,
) -> Started:
    """Makes the probe record in a running JVM, or finds it recording; else UserError with the mend.

    `sampling` is in the words of probe/options.h; "" is the probe's default.
    `full` returns the mend for the full file system of a folder, or "".  `passing`: only this process
    uses the live file.
    """
    checked = target.check(pid)
    present = loaded(pid, checked.mappings)
    if present and present.live_file:
        if not passing:
            ask(AttachedVM(pid), present.libraries[0], "keep")
        return _already(pid, present)
    allowed = admission.ProbeAllowance() if "force" in sampling.split(",") else admission.admit(pid)
    recorder = "recorder=" + ".".join(map(str, status.identity())) if passing else ""
    sampling = ",".join(word for word in (sampling, allowed.words, recorder) if word)
    # Two copies would both patch the hooks, so an idle copy in the process is started.
    path = present.libraries[0] if present else library.place(checked.status)
    try:
        started = _start(checked, path, sampling, full)
    except UserError:
        library.remove_copy(checked.status, path)
        raise
    if allowed.why and is_short_of_memory(started.live_file):
        return replace(started, notes=(*started.notes, allowed.why))
    return started


def detach(pid: int, recorder_of: Callable[[Path], int | None] | None = None) -> Stopped:
    """Stops the probe; NotRecording, or UserError when there is none, TargetGone when the JVM has ended.

    `recorder_of` finds the recorder of a live file: without a recorder the live file is kept.
    """
    checked = target.check(pid)
    present = loaded(pid, checked.mappings)
    if present is None:
        raise UserError(f"PID {pid} has no probe", "`offheap ps` shows which JVMs have one")
    # Before the stop: a recorder that sees the end exits by itself.
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
    """Gives back glibc's free memory through the probe in the JVM; False when there is no probe."""
    present = loaded(pid)
    if present is None:
        return False
    code = ask(AttachedVM(pid), present.libraries[0], "trim")
    if code != OK:
        raise result_error(pid, code)
    return True


def ask(vm: AttachedVM, path: str, request: str) -> int:
    """Sends a request to the probe's Agent_OnAttach and returns its result; success is always OK."""
    code = vm.load_agent(path, request)
    return OK if code == _OK_AGAIN else code


def result_error(pid: int, code: int, where: str = "") -> UserError:
    """The meaning of Agent_OnAttach's result as an error for the user; `where` follows the text."""
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
    for directory in for_attach(process.pid):
        name = f"{directory}/offheap-{process.namespace_pid}-{secrets.token_hex(8)}.live"
        # While the process lives: later its path of the file leads nowhere.
        reachable = root.is_ours(process.pid, directory)
        ours = Path(name) if reachable else root.through(process.pid, name)
        try:
            code = ask(vm, path, ",".join(word for word in ("start", f"file={name}", options) if word))
        except TargetGone:
            # The probe may have begun to record, into an unknown file.
            if reachable:
                with suppress(OSError):
                    within(opening.SECONDS, Path(name).unlink)
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


def _room(pid: int, directory: str) -> str:
    from offheap.quantities import format_size

    try:
        found = opening.space(root.through(pid, directory))
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
