"""A dump of a running JVM's jemalloc, by the probe's call of mallctl(3) inside it, and its perf map."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from offheap.errors import UserError
from offheap.jemalloc import dumps, perf_maps
from offheap.jvm.listener import target
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.listener.target import Target
from offheap.probe import admission, control, library
from offheap.probe.live_files.folders import for_attach
from offheap.proc import opening, root
from offheap.proc.opening import RegularFile
from offheap.proc.status import Status

MOST_BYTES = 1 << 30  # of a dump: some 200 bytes a stack
_PART = 1 << 20  # bytes of a dump that are copied at a time


class Requested(NamedTuple):
    """`perf_map` is None if the JVM writes none; `why` then says why."""

    dump: Path
    perf_map: Path | None
    why: str


def dump(pid: int, folder: Path, *, force: bool = False) -> Requested:
    """Writes jeprof.PID.N.mN.heap and perf-PID.map into the folder.

    The JVM writes the dump, as its own user, into a folder that it sees, under a name that nobody can guess;
    offheap copies the dump from there.  UserError if the process is no JVM or has no profiling jemalloc, if a
    folder is not writable, or if a memory limit leaves too little room for the probe.
    `force` ignores the limit.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder", "make it, or choose another with -o")
    checked = target.check(pid)
    if not force:
        admission.admit(pid, recorder=False)
    present = control.loaded(pid, checked.mappings)
    path = present.libraries[0] if present else library.place(checked.status)
    try:
        output = _dump(checked, path, dumps.next_name(folder, checked.status.namespace_pid))
    finally:
        if not present:
            library.remove_copy(checked.status, path)
    try:
        text = perf_maps.take(pid)
    except UserError as error:
        return Requested(output, None, error.what)
    names = dumps.perf_map(folder, checked.status.namespace_pid)
    old = names.read_bytes() if names.is_file() else b""
    _write(names, perf_maps.merged(old, text))
    return Requested(output, names, "")


def _dump(checked: Target, path: str, output: Path) -> Path:
    process = checked.status
    vm = AttachedVM(process.pid)
    tried: list[str] = []
    for folder in for_attach(process.pid):
        name = f"offheap-{process.namespace_pid}-{secrets.token_hex(8)}.heap"
        code = control.ask(vm, path, f"dump={folder}/{name}")
        if code == control.CANNOT_CREATE:
            tried.append(folder)
            continue
        if code != control.OK:
            raise control.result_error(process.pid, code)
        try:
            _copy(root.our_path(process.pid, f"{folder}/{name}"), process, output)
        finally:
            with suppress(OSError):
                perf_maps.remove(process, folder, name)
        return output
    raise UserError(
        f"jemalloc in PID {process.pid} could not write a dump in {', '.join(tried)}",
        "make /dev/shm or /tmp writable for the JVM's user",
    )


def _copy(source: Path, process: Status, output: Path) -> None:
    try:
        file = opening.regular(source, most=MOST_BYTES, owners={process.uid, 0}, follow=False)
    except OSError as error:
        raise UserError(f"the dump of PID {process.pid}, {source}: {error.strerror}", "") from None
    try:
        with file, open(_create(output), "wb") as copy:
            whole = _copied(file, copy)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}", "choose another folder with -o") from None
    if not whole:
        output.unlink()
        raise UserError(f"the dump of PID {process.pid}, {source}: grows beyond {MOST_BYTES} bytes", "")


def _copied(file: RegularFile, copy: BinaryIO) -> bool:
    """False when the file has more than MOST_BYTES: its owner may write to it while it is read."""
    done = 0
    while part := file.read_at(done, min(_PART, MOST_BYTES + 1 - done)):
        done += len(part)
        if done > MOST_BYTES:
            return False
        copy.write(part)
    return True


def _create(output: Path) -> int:
    return os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _write(output: Path, content: bytes) -> None:
    fresh = output.with_suffix(f".{secrets.token_hex(4)}")
    try:
        with open(_create(fresh), "wb") as file:
            file.write(content)
        fresh.replace(output)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}", "choose another folder with -o") from None
