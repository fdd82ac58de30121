"""Finds a jemalloc that profiles, and the settings that make it write dumps (jemalloc(3), MALLOC_CONF)."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from offheap.errors import UserError

# As ld.so(8) finds them: by the cache of ldconfig, then where `make install` of jemalloc puts it.
NAMES = ("libjemalloc.so.2", "/usr/local/lib/libjemalloc.so.2", "libjemalloc.so.1")
HOW_TO_INSTALL = (
    "Debian, Ubuntu: apt-get install libjemalloc2; others: configure jemalloc with --enable-prof, "
    "then name it with --library"
)
_PROFILES = re.compile(rb"^\s*opt\.prof: true\b", re.MULTILINE)
_IS_JEMALLOC = re.compile(rb"jemalloc", re.IGNORECASE)
_TRIAL_SECONDS = 10.0  # of a program that does nothing; it usually takes 10 ms
_LARGEST_POWER = 62  # of 2 bytes: jemalloc counts in signed 64 bits


def find(chosen: Path | None = None) -> str:
    """The library for LD_PRELOAD; UserError if no jemalloc here profiles, or the chosen one does not.

    Each library is tried with a program that does nothing: since version 3.0 the statistics at the exit say
    whether the library was built with --enable-prof.
    """
    if chosen is not None and not chosen.is_file():
        raise UserError(f"{chosen} is not a file", HOW_TO_INSTALL)
    names = [str(chosen.absolute())] if chosen is not None else NAMES
    without: list[str] = []
    for name in names:
        if any(letter in name for letter in " :"):
            raise UserError(
                f"LD_PRELOAD accepts no space and no colon in {name}", "copy it to another folder"
            )
        said = _statistics(name)
        if _PROFILES.search(said):
            return name
        if _IS_JEMALLOC.search(said) and b"cannot be preloaded" not in said:
            without.append(name)
    if chosen is not None:
        what = "was built without --enable-prof" if without else "is no jemalloc that can be preloaded here"
        raise UserError(f"{chosen} {what}", HOW_TO_INSTALL)
    if without:
        raise UserError(f"{without[0]} was built without --enable-prof", HOW_TO_INSTALL)
    raise UserError("there is no jemalloc", HOW_TO_INSTALL)


def _statistics(library: str) -> bytes:
    """What a program under the library writes to standard error."""
    program = shutil.which("true")
    if program is None:
        raise UserError("the program `true` is missing, which tries the library", "install coreutils")
    variables = {"LD_PRELOAD": library, "MALLOC_CONF": "prof:true,stats_print:true"}
    try:
        done = subprocess.run(
            [program],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRIAL_SECONDS,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stderr


def settings(folder: Path, interval: int, every: int, before: str = "") -> str:
    """MALLOC_CONF for dumps in the folder; the last of two equal settings counts, so these follow `before`.

    interval  mean bytes between samples; every: bytes allocated between dumps; both of `power_of_two`
    """
    if "," in str(folder):
        raise UserError(
            f"jemalloc accepts no comma in the name of a folder: {folder}", "choose another with -o"
        )
    words = (
        *(["prof:true", "prof_active:true", "prof_thread_active_init:true"]),
        f"lg_prof_sample:{interval.bit_length() - 1}",
        f"lg_prof_interval:{every.bit_length() - 1}",
        "prof_final:true",
        f"prof_prefix:{folder.absolute()}/jeprof",
    )
    return ",".join([*([before] if before else []), *words])


def power_of_two(size: int) -> int:
    """The nearest power of two by ratio: jemalloc's settings accept no other sizes."""
    return 1 << min(max(round(math.log2(max(size, 1))), 0), _LARGEST_POWER)


def preload(library: str, before: str) -> str:
    """LD_PRELOAD with the library in front: the first that defines malloc serves it."""
    others: Sequence[str] = [word for word in before.replace(":", " ").split() if word != library]
    return ":".join([library, *others])


def variables(library: str, folder: Path, interval: int, every: int) -> dict[str, str]:
    """The environment that makes a program profile itself."""
    return {
        "LD_PRELOAD": preload(library, os.environ.get("LD_PRELOAD", "")),
        "MALLOC_CONF": settings(folder, interval, every, os.environ.get("MALLOC_CONF", "")),
    }
