"""What stands beside Native Memory Tracking's categories, and what reports render of both."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.jvm.texts.nmt import Category


@dataclass(frozen=True, slots=True)
class ExternalSite:
    """One call path: names of its frames, innermost first, and what is live of it."""

    frames: tuple[str, ...]
    kind: str  # malloc or mmap
    bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class External:
    """Memory that is not the JVM's; bytes.

    category   as NMT has them: of a process mmap is what is in memory, of a recording what is mapped;
               the peak is that of a recording's time
    retained   what malloc keeps free, no part of the category; None where it cannot be told
    sites      of a recording, the largest first
    missing    why parts of it are not there
    """

    category: Category
    retained: int | None = None
    sites: tuple[ExternalSite, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tracked:
    """A report; `text` is the JVM's own, "" of a recording, whose JVM was not asked."""

    pid: int
    name: str
    categories: dict[str, Category]
    external: External
    text: str = ""

    @property
    def reserved(self) -> int:
        """The sum over the JVM's categories, which its report calls Total."""
        return sum(one.reserved for one in self.categories.values())

    @property
    def committed(self) -> int:
        return sum(one.committed for one in self.categories.values())
