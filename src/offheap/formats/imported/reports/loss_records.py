"""Blocks that a leak checker reports, by stack; those of every healthy JVM are counted separately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from offheap.formats import suppressions
from offheap.formats.imported import source
from offheap.formats.imported.stack_tables import StackTable, Total
from offheap.quantities import format_size
from offheap.recording.model import Frame

_ALLOCATORS = frozenset(
    [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "strdup",
        "strndup",
        "__strdup",
        "__strndup",
    ]
)
_PREFIXES = ("operator new", "__interceptor_", "___interceptor_", "__interceptor_trampoline_")
_MODULES = ("vgpreload_", "liblsan.so", "libasan.so", "libclang_rt.")
_MOST = 1 << 56  # bytes or blocks of one record: no address space holds more


@dataclass
class LossRecords:
    """Totals by stack of one file, and what the list of JVM noise left out."""

    path: Path
    stacks: StackTable
    totals: dict[int, Total] = field(default_factory=dict)
    noise_bytes: int = 0
    noise_blocks: int = 0

    def add(self, kind: str, frames: Sequence[Frame], size: int, blocks: int, place: str) -> None:
        """A record; `kind` ("definitely lost") becomes the outermost frame: trees are grouped by it."""
        if max(size, blocks) > _MOST:
            raise source.fault(self.path, place, "more bytes or blocks than an address space holds")
        if is_noise(frames):
            self.noise_bytes += size
            self.noise_blocks += blocks
            return
        number = self.stacks.of_frames([*frames, Frame(kind, "unknown")])
        old = self.totals.get(number, Total(0, 0))
        self.totals[number] = Total(old.live_blocks + blocks, old.live_bytes + size)

    def lacks(self) -> list[str]:
        if not self.noise_blocks:
            return []
        return [
            f"{self.path.name}: {format_size(self.noise_bytes)} in {self.noise_blocks:,} blocks are left "
            "out, which the JVM, its launcher and the dynamic linker hold in every run (jvm_noise.supp)"
        ]


def is_noise(frames: Sequence[Frame]) -> bool:
    """Whether the first frame outside the allocator is in the shipped list."""
    for frame in frames:
        if _is_allocator(frame):
            continue
        return any(text and one.matches(text) for one in noise() for text in (frame.name, frame.module))
    return False


@cache
def noise() -> tuple[suppressions.Suppression, ...]:
    """The shipped list."""
    file = resources.files(__package__).joinpath("jvm_noise.supp")
    return suppressions.parse(file.read_text("utf-8"), "jvm_noise.supp")


def _is_allocator(frame: Frame) -> bool:
    return frame.name in _ALLOCATORS or frame.name.startswith(_PREFIXES) or frame.module.startswith(_MODULES)
