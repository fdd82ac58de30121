"""/proc/PID/smaps: the memory of each mapping (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from offheap.proc import maps
from offheap.proc.maps import Mapping

# Over the whole text at once: a process has hundreds of mappings with two dozen lines each.
_HEAD = re.compile(r"^[0-9a-f]+-[0-9a-f]+ [^\n]*$", re.ASCII | re.MULTILINE)
_FIELD = re.compile(
    r"^(Rss|Pss|Private_Dirty|Anonymous|Swap|AnonHugePages): +(\d+) kB$",
    re.ASCII | re.MULTILINE,
)
_FLAGS = re.compile(r"^VmFlags:([^\n]*)$", re.ASCII | re.MULTILINE)
# Mappings that look like files but have no file: huge pages, shared memory, memfd_create.
_FILELESS = ("/anon_hugepage", "/dev/zero", "/memfd:", "/SYSV", "/[aio]")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a mapping, or of a whole process; fields of older kernels' smaps are 0.

    `huge` is anonymous memory on transparent huge pages, part of `rss` as well.
    """

    rss: int = 0
    pss: int = 0
    private_dirty: int = 0
    anonymous: int = 0
    swap: int = 0
    huge: int = 0


@dataclass(frozen=True, slots=True)
class SmapsEntry:
    """One mapping; `flags` are the two-letter words of VmFlags."""

    mapping: Mapping
    memory: Memory
    flags: frozenset[str]

    @property
    def is_file(self) -> bool:
        """Whether the mapping has a file that a person could open."""
        path = self.mapping.path
        return path.startswith("/") and not path.startswith(_FILELESS)


def parse(text: str) -> list[SmapsEntry]:
    """The text of a smaps file; other lines are left out.

    A mapping listed twice (`maps.parse`) counts once, with the later entry.
    """
    found: list[SmapsEntry] = []
    for row in _rows(text):
        while found and found[-1].mapping.end > row.mapping.start:
            found.pop()
        found.append(row)
    return found


def read(pid: int) -> list[SmapsEntry]:
    """The mappings of a process and their memory; the kernel walks the page tables while the process runs.

    PermissionError for another user's, ProcessLookupError for none; empty for a zombie.
    """
    return parse(_text(pid))


def total(rows: Iterable[SmapsEntry]) -> Memory:
    """The sum of all mappings, from one reading: the kernel's own sum is of another moment."""
    memories = [row.memory for row in rows]
    names = Memory.__dataclass_fields__
    return Memory(**{name: sum(getattr(memory, name) for memory in memories) for name in names})


def _text(pid: int) -> str:
    try:
        # Bytes, because text mode starts a new line at a carriage return in a file's name.
        return Path(f"/proc/{pid}/smaps").read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None


def _rows(text: str) -> Iterator[SmapsEntry]:
    heads = [(head, found[0]) for head in _HEAD.finditer(text) if (found := maps.parse((head[0],)))]
    ends = [*(head.start() for head, _ in heads[1:]), len(text)]
    for (head, mapping), end in zip(heads, ends, strict=False):  # without a mapping there is one end
        block = text[head.end() : end]
        flags = _FLAGS.findall(block)
        yield SmapsEntry(mapping, _memory(block), frozenset(flags[-1].split() if flags else ()))


def _memory(block: str) -> Memory:
    """Memory from the lines of one mapping; the later line of a repeated field counts."""
    fields = {name: int(kibibytes) * 1024 for name, kibibytes in _FIELD.findall(block)}
    return Memory(
        rss=fields.get("Rss", 0),
        pss=fields.get("Pss", 0),
        private_dirty=fields.get("Private_Dirty", 0),
        anonymous=fields.get("Anonymous", 0),
        swap=fields.get("Swap", 0),
        huge=fields.get("AnonHugePages", 0),
    )
