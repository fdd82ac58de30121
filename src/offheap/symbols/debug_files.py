"""The places of an image's symbols: the file itself, and separate debug files.

The search is that of GDB: by build-id (/usr/lib/debug/.build-id/ab/cdef.debug), by .gnu_debuglink
(beside the file, in .debug/ beside it, below /usr/lib/debug), and in the image's own
.gnu_debugdata section (MiniDebugInfo: an xz-compressed ELF file that has only a .symtab).
"""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from offheap.proc import opening
from offheap.proc.images.elf import DebugLink, ElfError, ElfImage
from offheap.proc.time_limit import within

_MOST_LINKS = 40  # symbolic links in one path, as in the kernel
_LARGEST_MINIDEBUG = 64 << 20  # bytes


def beneath(root: Path, path: str) -> Path:
    """The file that `path` names for a process whose root directory is `root`.

    Absolute symbolic links below /proc/PID/root lead into this process's file system, not the target's,
    so this function follows them itself.
    """
    if root == Path("/"):
        return Path(path)
    return within(opening.SECONDS, lambda: _beneath(root, path))


def _beneath(root: Path, path: str) -> Path:
    todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            del done[-1:]
            continue
        done.append(part)
        try:
            link = os.readlink(root.joinpath(*done))
        except OSError:
            continue  # no link, or no file, which the open reports
        links += 1
        if links > _MOST_LINKS:
            break
        done = [] if link.startswith("/") else done[:-1]
        todo += [part for part in reversed(link.split("/")) if part not in ("", ".")]
    return root.joinpath(*done)


def debug_file(
    root: Path, directories: Sequence[Path], path: Path, build_id: str, link: DebugLink | None
) -> tuple[Path, ElfImage] | None:
    """The separate debug file of the image `path`, opened.

    It has the same build-id, or, without a build-id, content that matches .gnu_debuglink's CRC.
    """
    folders = [beneath(root, str(directory)) for directory in directories]
    folders += [directory for directory in directories if directory not in folders]
    for candidate in _candidates(folders, root, path, build_id, link):
        if candidate == path:
            continue
        try:
            image = ElfImage.open(candidate)
        except (OSError, ElfError):
            continue
        if _belongs(image, build_id, link):
            return candidate, image
        image.close()
    return None


def minidebug(image: ElfImage) -> ElfImage | None:
    """The image inside .gnu_debugdata."""
    data = image.data(image.section(".gnu_debugdata"))
    if not data:
        return None
    try:
        unpacked = lzma.LZMADecompressor(memlimit=2 * _LARGEST_MINIDEBUG).decompress(data, _LARGEST_MINIDEBUG)
        return ElfImage.from_bytes(unpacked)
    except (lzma.LZMAError, EOFError, ElfError):
        return None


def _candidates(
    folders: Sequence[Path], root: Path, path: Path, build_id: str, link: DebugLink | None
) -> Iterator[Path]:
    if len(build_id) > 2:
        for folder in folders:
            yield folder / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    if link is None or link.name in ("", ".", "..") or "/" in link.name:
        return
    yield path.parent / link.name
    yield path.parent / ".debug" / link.name
    inner = path.parent.relative_to(root) if path.is_relative_to(root) else path.parent.relative_to("/")
    for folder in folders:
        yield folder / inner / link.name


def _belongs(image: ElfImage, build_id: str, link: DebugLink | None) -> bool:
    try:
        if build_id or image.build_id:
            return image.build_id == build_id
        return link is not None and _crc(image) == link.crc
    except (OSError, ElfError):
        return False


def _crc(image: ElfImage) -> int:
    crc = 0
    for chunk in image.content():
        crc = zlib.crc32(chunk, crc)
    return crc
