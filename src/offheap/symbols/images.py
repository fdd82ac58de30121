"""The images of a running process, opened as soon as their modules are known.

Java libraries extract their native part into a temporary folder, load it and delete the file at once, or
when the JVM ends.  So an image is opened when its module appears, not when a frame in it needs a name: by
its path, by the descriptor that the probe holds, by the kernel's link to the mapped file, which needs
privileges, or from the memory of its mapping, which needs the right to trace the process.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from offheap.proc import maps, opening
from offheap.proc.images.elf import ElfError, ElfImage
from offheap.proc.images.mapped_elf import MappedModule, exported_symbols
from offheap.proc.time_limit import within
from offheap.symbols.debug_files import beneath

DELETED = " (deleted)"  # the kernel's mark in /proc/PID/maps

_MOST_OPEN = 256  # files; a JVM has some 60 modules
_SHARE_OF_DESCRIPTORS = 4  # and at most one part in this many of the limit of open files
_MOST_KEPT = 128 << 20  # bytes of symbols from memory that are held until a frame needs them


@dataclass(frozen=True, slots=True)
class Image:
    """An opened image.

    place  a path that leads to the same file, for another open
    whole  False: only exported symbols and build-id, from the memory of the mapping
    """

    image: ElfImage
    place: Path
    whole: bool


class Images:
    """Opens images when their modules appear, and hands each out once.

    pid  of the process, as seen from here; None: it is gone, only paths lead to its images
    """

    def __init__(self, root: Path, pid: int | None) -> None:
        self._root, self._pid = root, pid
        self._met: set[MappedModule] = set()
        self._found: set[tuple[str, str]] = set()
        self._opened: dict[tuple[str, str], Image] = {}
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._room = max(1, min(_MOST_OPEN, soft // _SHARE_OF_DESCRIPTORS))

    def meet(self, modules: Iterable[MappedModule]) -> None:
        """Opens the images that are not open; tries again when a descriptor becomes known."""
        mapped: dict[int, maps.Mapping] | None = None
        for module in modules:
            key = module.path, module.build_id
            if module in self._met or key in self._found or not module.path.startswith("/"):
                continue
            self._met.add(module)
            image = self._by_path(module)
            if image is None and self._pid is not None:
                # Once for all: a process with a thousand libraries has ten thousand mappings.
                mapped = _mapped(self._pid) if mapped is None else mapped
                image = _of_process(self._pid, module, mapped.get(module.start))
            if image:
                self._found.add(key)
                self._keep(key, image)

    def take(self, path: str, build_id: str) -> Image | None:
        """The image that meet() opened, once; the caller closes it."""
        return self._opened.pop((path, build_id), None)

    def close(self) -> None:
        """Closes the images that were not taken."""
        while self._opened:
            self._opened.popitem()[1].image.close()

    def _keep(self, key: tuple[str, str], image: Image) -> None:
        self._opened[key] = image
        files = [key for key, one in self._opened.items() if one.whole]
        if len(files) > self._room:  # the oldest had the most time to be taken
            self._opened.pop(files[0]).image.close()
        copies = [one.image.file_size for one in self._opened.values() if not one.whole]
        if sum(copies) > _MOST_KEPT:
            del self._opened[key]

    def _by_path(self, module: MappedModule) -> Image | None:
        if module.path.endswith(DELETED) and not module.build_id:
            return None  # another file may have the name now
        return _whole(beneath(self._root, module.path.removesuffix(DELETED)), module)


def _of_process(pid: int, module: MappedModule, mapping: maps.Mapping | None) -> Image | None:
    """`mapping`: what is mapped at the module's start."""
    # Without a build-id the name shows whether another image has replaced it.
    name = module.path.removesuffix(DELETED).rpartition("/")[2]
    if mapping is None or not (module.build_id or mapping.name == name):
        return None
    held = Path(f"/proc/{pid}/fd/{module.descriptor}")
    its_file = module.descriptor >= 0 and not module.copied
    if its_file and (image := _whole(held, module, mapping.inode, link=True)):
        return image
    mapped = Path(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}")
    if image := _whole(mapped, module, link=True):
        return image
    if module.descriptor >= 0 and module.copied and (image := _in_memory(held, -module.start, module)):
        return image
    return _in_memory(Path(f"/proc/{pid}/mem"), 0, module)


def _mapped(pid: int) -> dict[int, maps.Mapping]:
    """The mappings of files by their first address."""
    try:
        return {one.start: one for one in maps.read(pid) if one.inode}
    except OSError:
        return {}


def _whole(path: Path, module: MappedModule, inode: int = 0, *, link: bool = False) -> Image | None:
    """The image in a file, if it is the module's.  `inode` identifies a module without a build-id.

    `link`: the path is one of the kernel's own links in /proc.
    """
    try:
        image = ElfImage.of(opening.own_link(str(path))) if link else ElfImage.open(path)
    except (OSError, ElfError):
        return None
    try:
        same = image.build_id == module.build_id if module.build_id else True
        if same and not module.build_id and inode:
            same = os.fstat(image.fileno()).st_ino == inode
    except (OSError, ElfError):
        same = False
    if not same:
        image.close()
        return None
    return Image(image, Path(f"/proc/{os.getpid()}/fd/{image.fileno()}"), whole=True)


def _in_memory(file: Path, shift: int, module: MappedModule) -> Image | None:
    """The part of the module's image that memory has, from a file with address A at A + `shift`.

    The process may serve a page itself (userfaultfd, FUSE) and never answer.
    """

    def read() -> ElfImage:
        # A descriptor of the process may be a FIFO or a device now; its memory is no regular file.
        memory = file.name == "mem"
        flags = os.O_RDONLY | os.O_CLOEXEC
        descriptor = os.open(file, flags) if memory else opening.own_link(str(file)).detach()
        try:
            data = exported_symbols(
                lambda at, size: os.pread(descriptor, size, at + shift), module.start, module.bias
            )
        finally:
            os.close(descriptor)
        return ElfImage.from_bytes(data)

    # OverflowError, ValueError: an address beyond any file offset.
    errors = (OSError, ElfError, OverflowError, ValueError, MemoryError)
    try:
        image = within(opening.SECONDS, read)
        same = image.build_id == module.build_id
    except errors:
        return None
    return Image(image, Path(module.path), whole=False) if same else None
