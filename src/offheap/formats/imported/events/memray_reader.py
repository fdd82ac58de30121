"""Runs memray's reader on a capture, as a program of its own with limits of memory and time."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path

from offheap.children import memray_child
from offheap.errors import UserError
from offheap.proc import opening
from offheap.quantities import format_size
from offheap.recording import allowance

MAGIC = b"memray\0"  # of a capture that was not ended; memray compresses it then
INSTALL = "pip install 'offheap[memray]'"

_PATIENCE = 2 * memray_child.SECONDS  # seconds of wall clock
_LIBRARIES = 512 << 20  # bytes of address space: the interpreter, numpy, memray
_TIMES_ANSWER = 4  # the child's archive, its arrays and what is made of them
_OTHER_VERSION = "incompatible with this version of memray"


def damaged(path: Path, why: str) -> UserError:
    return UserError(f"{path} is not read by memray: {why}", "is the file complete?  Copy it again")


def answer(path: Path) -> tuple[bytes, bool]:
    """(what the child writes, whether the capture was ended)."""
    try:
        file = opening.regular(path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror or error}", "check the name and the rights of the file"
        ) from None
    with file:
        if importlib.util.find_spec("memray") is None:
            raise UserError(f"{path} is a capture of memray, which is not installed here", INSTALL)
        return _run(path, file.descriptor), file.read_at(0, len(MAGIC)) != MAGIC


def _run(path: Path, descriptor: int) -> bytes:
    memory = allowance.limit()
    # LD_PRELOAD may hold the probe; and a file should not make this machine ask a server for symbols.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "DEBUGINFOD_URLS")
    }
    # Through the descriptor: the name may lead to another file now.
    arguments = [f"/proc/self/fd/{descriptor}", str(memory + _LIBRARIES)]
    with subprocess.Popen(
        [sys.executable, memray_child.__file__, *arguments],
        env=environment,
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        timer = threading.Timer(_PATIENCE, child.kill)
        timer.start()
        try:
            assert child.stdout
            assert child.stderr
            most = memory // _TIMES_ANSWER
            archive = child.stdout.read(most + 1)
            if len(archive) > most:
                raise UserError(
                    f"{path} has more than {format_size(most)} of stacks",
                    f"if it is yours, allow more: {allowance.VARIABLE}={2 * memory >> 30}GiB",
                )
            said = child.stderr.read(1 << 16).decode("utf-8", "replace").strip()
            status = child.wait()
        finally:
            timer.cancel()
            child.kill()
    if status < 0:
        raise damaged(path, f"its reader was ended by signal {-status}")
    if status:
        if _OTHER_VERSION in said:
            raise UserError(
                f"{path} was written by another version of memray than the one that is installed here",
                "memray reads captures of its own version: install the one that made it",
            )
        # Messages of memray name the descriptor.
        raise damaged(path, said.replace(arguments[0], path.name).splitlines()[-1] if said else "no reason")
    return archive
