"""File, line and inlined functions at an address, from DWARF, by the package `symbolic`.

`symbolic` converts DWARF into a symcache once; the result of a slow conversion is kept on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from offheap.children import convert
from offheap.proc.images.elf import ElfError, ElfImage

_WORTH_KEEPING = 0.3  # seconds of conversion
_MOST_KEPT = 24  # files; libjvm's is 50 MB
_PATIENCE = 600.0  # seconds
_ADDRESSES = 1 << 32  # a symcache's addresses have 32 bits


class LinesError(Exception):
    """The debug information could not be used; the message completes "its lines are missing: ..."."""


@dataclass(frozen=True, slots=True)
class Location:
    """One function of an inlined chain.  `name` is raw (mangled); "" and 0 when unknown."""

    name: str
    file: str
    line: int


class Symcache(Protocol):
    """The used part of symbolic.symcache.SymCache, whose methods have no types."""

    is_latest_version: bool

    def lookup(self, addr: int) -> list[Any]: ...


class LineTable:
    """The lines of one image, by ELF virtual address."""

    def __init__(self, symcache: Symcache, load_address: int) -> None:
        self._symcache = symcache
        self._load_address = load_address

    @classmethod
    def open(cls, path: Path, image: ElfImage) -> LineTable:
        """From the DWARF of `image`; LinesError, which calls it `path`, when that fails."""
        return cls(_symcache(path, image), image.load_address)

    def chain(self, address: int) -> list[Location]:
        """Innermost first, with the function of the real call last; [] without line information."""
        offset = address - self._load_address
        if not 0 <= offset < _ADDRESSES:
            return []
        places = self._symcache.lookup(offset)
        # Without DWARF for the address symbolic returns the nearest symbol, at any distance.
        if not any(place.full_path for place in places):
            return []
        return [Location(place.symbol or "", place.full_path or "", place.line) for place in places]


def available() -> bool:
    """Whether `symbolic` is installed."""
    return importlib.util.find_spec("symbolic") is not None


def _open_symcache(path: Path) -> Symcache:
    # The import of symbolic sets RUST_BACKTRACE in the environment, which child programs would inherit.
    before = os.environ.get("RUST_BACKTRACE")
    try:
        opened: Symcache = importlib.import_module("symbolic.symcache").SymCache.open(str(path))
        return opened
    finally:
        if before is None:
            os.environ.pop("RUST_BACKTRACE", None)


def _symcache(path: Path, image: ElfImage) -> Symcache:
    folder = _private(_folder())
    kept = folder / f"{_digest(image)}.symcache" if folder else None
    if kept:
        with contextlib.suppress(Exception):  # missing, truncated, or of another version: convert again
            symcache = _open_symcache(kept)
            if symcache.is_latest_version:
                os.utime(kept)  # the oldest go first
                return symcache
    try:
        fresh = _empty_file(folder)
    except OSError:
        fresh = _empty_file(None)
    try:
        started = time.monotonic()
        _convert(path, image, fresh)
        took = time.monotonic() - started
        symcache = _open_symcache(fresh)
        if folder and kept and took > _WORTH_KEEPING and fresh.parent == folder:
            fresh.rename(kept)
            _prune(folder)
        return symcache
    except LinesError:
        raise
    except Exception as error:  # any error of symbolic or the file system
        raise LinesError(str(error).partition("\n")[0]) from error
    finally:
        fresh.unlink(missing_ok=True)


def _digest(image: ElfImage) -> str:
    """A digest of the content: a build-id is only the file's own claim, and may be another file's."""
    digest = hashlib.sha256()
    try:
        for piece in image.content():
            digest.update(piece)
    except (OSError, ElfError) as error:
        raise LinesError(f"the file {error}") from error
    return digest.hexdigest()


def _convert(path: Path, image: ElfImage, symcache: Path) -> None:
    # LD_PRELOAD may hold the probe, and the address-space limit is meant for DWARF alone.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    # Through the descriptor: the name may lead to another file now.
    source = f"/proc/self/fd/{image.fileno()}"
    command = [sys.executable, convert.__file__, source, str(symcache)]
    try:
        done = subprocess.run(
            command,
            env=environment,
            pass_fds=(image.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LinesError(f"the conversion of {path} failed: {error}") from error
    if done.returncode < 0:
        raise LinesError(
            f"the conversion of {path} was ended by signal {-done.returncode}; "
            f"it may use {convert.MEMORY >> 30} GiB and {convert.SECONDS} s"
        )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise LinesError(f"the conversion of {path} failed: {said[-1] if said else 'no reason given'}")


def _folder() -> Path:
    # The XDG specification: relative paths there are ignored.
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if base.startswith("/") else Path(os.path.expanduser("~")) / ".cache"
    return home / "offheap" / "symcache"


def _private(folder: Path) -> Path | None:
    """The folder, created if necessary; None if others may write to it, because its content is trusted.

    Others may write to it under a `sudo` that keeps HOME.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve()
        its, *above = [place.stat() for place in (folder, *folder.parents)]
    except (OSError, RuntimeError):  # Python 3.12 and older: a loop of links
        return None
    ours = its.st_uid == os.geteuid() and not its.st_mode & 0o022
    kept = all(
        one.st_uid in (0, its.st_uid) and (not one.st_mode & stat.S_IWOTH or one.st_mode & stat.S_ISVTX)
        for one in above
    )
    return folder if ours and kept else None


def _empty_file(folder: Path | None) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=folder)
    os.close(descriptor)
    return Path(name)


def _prune(folder: Path) -> None:
    with contextlib.suppress(OSError):
        kept = sorted(folder.glob("*.symcache"), key=lambda file: file.stat().st_mtime)
        abandoned = [file for file in folder.glob(".*.part") if time.time() - file.stat().st_mtime > 3600]
        for file in kept[:-_MOST_KEPT] + abandoned:
            file.unlink(missing_ok=True)
