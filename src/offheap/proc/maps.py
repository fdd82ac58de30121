"""/proc/PID/maps: the mappings of a process (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(
    r"([0-9a-f]+)-([0-9a-f]+) ([r-][w-][x-][ps]) ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+)\s*(.*)", re.ASCII
)
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line: addresses [start, end), `offset` bytes into `path` ("" when anonymous).

    `path` is as the process sees it; `deleted` when no directory holds that file any more.
    """

    start: int
    end: int
    permissions: str
    offset: int
    device: str
    inode: int
    path: str
    deleted: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def parse(lines: Iterable[str]) -> list[Mapping]:
    """Lines of a maps file; other lines are left out.

    A mapping that grows during the read may be listed twice in a row (seen on Linux 6.18, which seems to
    resume at the old end, now inside the mapping): the later line counts.
    """
    found: list[Mapping] = []
    for line in lines:
        match = _LINE.fullmatch(line.rstrip("\n"))
        if not match:
            continue
        start, end, permissions, offset, device, inode, path = match.groups()
        while found and found[-1].end > int(start, 16):
            found.pop()
        deleted = path.endswith(_DELETED)
        found.append(
            Mapping(
                int(start, 16),
                int(end, 16),
                permissions,
                int(offset, 16),
                device,
                int(inode),
                # The kernel writes a newline in a name as \012 and leaves all else as it is.
                path.removesuffix(_DELETED).replace("\\012", "\n"),
                deleted,
            )
        )
    return found


def read(pid: int) -> list[Mapping]:
    """The mappings of a process; PermissionError for another user's process, ProcessLookupError for none.

    Empty for a kernel thread and for a zombie.
    """
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes().decode(errors="surrogateescape")
        # Split at "\n" alone, as the kernel does: names may hold other line separators, and text mode turns
        # carriage returns into line feeds.
        return parse(text.split("\n"))
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
