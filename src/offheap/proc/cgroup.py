"""What the kernel counts against a process's container: memory cgroups, version 1 and 2 (cgroups(7))."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# Version 1 has no word for "no limit": it shows the largest multiple of the page size.
_NO_LIMIT_V1 = 1 << 60


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Bytes of one memory cgroup; `limit` is the lowest on the way to the root, None without one.

    usage        what the limit is held against: memory, page cache and kernel memory of all its processes
    page_cache   of files, reclaimed before anything is killed
    kernel       page tables, sockets, stacks in the kernel ...; None where it is not told
    """

    version: int
    path: str
    usage: int
    limit: int | None
    anonymous: int
    page_cache: int
    kernel: int | None


def read(pid: int, mounts: Path | None = None) -> Cgroup | None:
    """The memory cgroup of a process; None when it is in none, or none can be read from here.

    `mounts` is where the hierarchies are mounted, /sys/fs/cgroup.
    """
    base = mounts or Path("/sys/fs/cgroup")
    try:
        text = Path(f"/proc/{pid}/cgroup").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return None
    for version, path in sorted(parse(text).items()):
        roots = (base / "memory",) if version == 1 else (base, base / "unified")
        for root in roots:
            found = _read(version, root, path)
            if found:
                return found
    return None


def parse(text: str) -> dict[int, str]:
    """The text of /proc/PID/cgroup: version -> path of the memory cgroup."""
    found: dict[int, str] = {}
    for line in text.split("\n"):  # a group may have other line separators in its name
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        if number == "0" and not controllers:
            found[2] = path
        elif "memory" in controllers.split(","):
            found[1] = path
    return found


def parse_stat(text: str) -> dict[str, int]:
    """The text of memory.stat: name -> bytes."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _read(version: int, root: Path, path: str) -> Cgroup | None:
    # In a container with a cgroup namespace of its own the path is relative to what is mounted;
    # without one it is the host's, and the container's own group is what is mounted.
    relative = os.path.normpath(path).lstrip("/")
    folder = root / relative
    usage_name, limit_name = (
        ("memory.usage_in_bytes", "memory.limit_in_bytes")
        if version == 1
        else ("memory.current", "memory.max")
    )
    if _number(folder / usage_name) is None:
        folder = root
    usage = _number(folder / usage_name)
    if usage is None:
        return None
    limits = []
    for group in (folder, *folder.parents):
        limit = _number(group / limit_name)
        if limit is not None and limit < _NO_LIMIT_V1:
            limits.append(limit)
        if group == root:
            break
    try:
        stat = parse_stat((folder / "memory.stat").read_text())
    except OSError:
        stat = {}
    if version == 1:
        kernel = _number(folder / "memory.kmem.usage_in_bytes")
        anonymous, cache = stat.get("total_rss", 0), stat.get("total_cache", 0)
    else:
        kernel = stat.get("kernel")
        anonymous, cache = stat.get("anon", 0), stat.get("file", 0)
    return Cgroup(
        version,
        "/" + relative if folder != root else "/",
        usage,
        min(limits, default=None),
        anonymous,
        cache,
        kernel,
    )


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
