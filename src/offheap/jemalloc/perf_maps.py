"""The names of a JVM's compiled methods by address: its perf map, by Compiler.perfmap (JDK 17 and later).

The JVM may compile a method again and free the old code.  No later map has that code, but old stacks still
have its address.  Therefore `merged` keeps the lines of an earlier map whose addresses the newer map lacks.
"""

from __future__ import annotations

import bisect
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from offheap.errors import UserError
from offheap.jvm.listener.attach import AttachedVM, AttachError
from offheap.jvm.listener.owner import as_owner, entered
from offheap.probe.live_files.folders import for_attach
from offheap.proc import opening, root, status
from offheap.proc.status import Status
from offheap.proc.time_limit import within

_LINE = re.compile(rb"(?:0x)?([0-9a-fA-F]{1,16}) (?:0x)?([0-9a-fA-F]{1,16}) (.+)")
MOST_BYTES = 256 << 20  # a JVM with 240 MiB of code has some 100,000 methods, 15 MB
_ATTACH_SECONDS, _REPLY_SECONDS = 5.0, 30.0
NEEDS = "it has no Compiler.perfmap (JDK 17 or later): Java methods have no names"


def take(pid: int) -> bytes:
    """The current map; UserError if the JVM writes none."""
    target = status.read(pid)
    vm = AttachedVM(pid, attach_seconds=_ATTACH_SECONDS, reply_seconds=_REPLY_SECONDS)
    # A name that nobody can guess.  JDK 17 and 21 accept none: they always write /tmp/perf-PID.map.
    name = f"offheap-{target.namespace_pid}-{secrets.token_hex(8)}.map"
    problem = UserError(f"PID {pid} has no folder for its perf map", "")
    for folder in for_attach(pid):
        if " " in folder:
            continue
        answer = _ask(vm, f"Compiler.perfmap {folder}/{name}")
        if "Unknown diagnostic command" in answer:
            raise UserError(f"PID {pid}: {NEEDS}", "")
        if "IllegalArgument" in answer:
            break
        try:
            return _take_away(target, folder, name)
        except UserError as error:
            problem = error
    else:
        raise problem
    name = f"perf-{target.namespace_pid}.map"
    there = _exists(pid, root.our_path(pid, f"/tmp/{name}"))
    _ask(vm, "Compiler.perfmap")
    return _take_away(target, "/tmp", name, keep=there)


def _exists(pid: int, path: Path) -> bool:
    try:
        opening.status(path, follow=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unread(pid, path, error) from None
    return True


def _unread(pid: int, path: Path, error: OSError) -> UserError:
    return UserError(f"the perf map of PID {pid}, {path}: {error.strerror}", "")


def _ask(vm: AttachedVM, command: str) -> str:
    try:
        return vm.jcmd(command)
    except AttachError as error:
        return error.reply or error.what


def _take_away(target: Status, folder: str, name: str, keep: bool = False) -> bytes:
    """Reads a file that the process has written, and removes it as the process's user."""
    path = root.our_path(target.pid, f"{folder}/{name}")
    try:
        with opening.regular(path, most=MOST_BYTES, owners={target.uid, 0}, follow=False) as file:
            content = file.read_at(0, file.status.st_size)
    except OSError as error:
        raise _unread(target.pid, path, error) from None
    if not keep:
        with suppress(OSError):
            remove(target, folder, name)
    return content


def remove(target: Status, folder: str, name: str) -> None:
    def unlink() -> None:
        with entered(root.our_path(target.pid, folder)) as entrance, as_owner(target):
            os.unlink(entrance / name)

    within(opening.SECONDS, unlink)


def merged(old: bytes, new: bytes) -> bytes:
    """The new map, with the lines of the old map whose addresses the new map lacks."""
    rows = _rows(new)
    starts = [start for start, _, _ in rows]
    kept = list(rows)
    for start, end, line in _rows(old):
        place = bisect.bisect_left(starts, end)
        # The rows of a map do not overlap: the one that begins last before the end decides.
        if place == 0 or rows[place - 1][1] <= start:
            kept.append((start, end, line))
    return b"".join(line + b"\n" for _, _, line in sorted(kept))


def _rows(text: bytes) -> list[tuple[int, int, bytes]]:
    """(start, end, line), by start; lines that are no row are left out."""
    found = []
    for line in text.split(b"\n"):
        match = _LINE.fullmatch(line.strip())
        if match:
            start = int(match[1], 16)
            found.append((start, start + int(match[2], 16), line.strip()))
    return sorted(found)
