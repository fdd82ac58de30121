"""Memory of a process's container as the kernel counts it: memory cgroups, version 1 and 2 (cgroups(7))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Version 1 has no word for "no limit" and shows the largest multiple of the page size.
_NO_LIMIT_V1 = 1 << 60


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Bytes of one memory cgroup; `limit` is the lowest on the way to the root, None without one.

    usage        the value that the limit bounds: memory, page cache and kernel memory of all its processes
    page_cache   of files; the kernel reclaims it before it kills a process
    kernel       page tables, sockets, kernel stacks ...; None when unknown
    """

    version: int
    path: str
    usage: int
    limit: int | None
    anonymous: int
    page_cache: int
    kernel: int | None


@dataclass(frozen=True, slots=True)
class CgroupRoom:
    """The room below a memory limit, in the group with the least room on the way to the root.

    group  its folder; two processes share the room if both are in it or below
    left   bytes until the kernel kills a process; page cache that it drops first is included
    """

    group: Path
    limit: int
    left: int


def room(pid: int, mounts: Path | None = None) -> CgroupRoom | None:
    """The room of a process and of all that share its limit; None when no limit is visible from here.

    probe/platform/cgroup.c reads the same from inside.
    """
    return least_room(_text(pid), mounts)


def least_room(text: str, mounts: Path | None = None) -> CgroupRoom | None:
    """As `room`, from the text of /proc/PID/cgroup."""
    return min(_rooms(text, mounts), key=lambda room: room.left, default=None)


def shares(pid: int, other: CgroupRoom, mounts: Path | None = None) -> bool:
    """Whether that limit also applies to a process."""
    return any(other.group in (group, *group.parents) for _, group, _ in _groups(_text(pid), mounts))


def read(pid: int, mounts: Path | None = None) -> Cgroup | None:
    """The memory cgroup of a process; None when it is in none, or none can be read from here.

    `mounts` is where the hierarchies are mounted, /sys/fs/cgroup.
    """
    for version, folder, root in _groups(_text(pid), mounts):
        found = _read(version, folder, root)
        if found:
            return found
    return None


def parse(text: str) -> dict[int, str]:
    """The text of /proc/PID/cgroup: version -> path of the memory cgroup."""
    found: dict[int, str] = {}
    for line in text.split("\n"):  # a group's name may have other line separators
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


# Files with a group's limits and usage.  Above memory.high the kernel only slows processes down.
_LIMITS = {
    1: (
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
    ),
    2: (("memory.max", "memory.current"), ("memory.high", "memory.current")),
}


def _text(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return ""


def _groups(text: str, mounts: Path | None) -> Iterator[tuple[int, Path, Path]]:
    """Version, folder, and the root of the hierarchy, of each memory cgroup that a process may be in."""
    base = mounts or Path("/sys/fs/cgroup")
    for version, path in sorted(parse(text).items()):
        for root in (base / "memory",) if version == 1 else (base, base / "unified"):
            yield version, _folder(version, root, path), root


def _folder(version: int, root: Path, path: str) -> Path:
    """The folder of a group.

    In a container with its own cgroup namespace the path is relative to the mount; without one the path is
    the host's and the mount is a group on its way: then the front parts of the path are missing here.
    """
    parts = [part for part in path.split("/") if part]
    # Outside of the mount.  The kernel puts each `..` in front; what is behind may also be a group here.
    if ".." in parts:
        return root
    usage = _LIMITS[version][0][1]
    candidates = (root.joinpath(*parts[first:]) for first in range(len(parts)))
    return next((folder for folder in candidates if _number(folder / usage) is not None), root)


def _rooms(text: str, mounts: Path | None) -> Iterator[CgroupRoom]:
    for version, folder, root in _groups(text, mounts):
        for group in (folder, *folder.parents):
            for limit_name, usage_name in _LIMITS[version]:
                limit, usage = _number(group / limit_name), _number(group / usage_name)
                if limit is not None and usage is not None and limit < _NO_LIMIT_V1:
                    yield CgroupRoom(group, limit, max(0, limit - max(0, usage - _droppable(version, group))))
            if group == root or (version == 1 and _number(group.parent / "memory.use_hierarchy") == 0):
                break


def _droppable(version: int, group: Path) -> int:
    """Bytes of page cache and the like that the kernel takes back before it kills.

    Half of the recently used cache, as in MemAvailable, and no pages that must first be written to disk.
    Files on tmpfs do not count.
    """
    try:
        stat = parse_stat((group / "memory.stat").read_text())
    except OSError:
        return 0
    prefix, waiting = ("total_", "total_") if version == 1 else ("", "file_")
    cache = stat.get(f"{prefix}inactive_file", 0) + stat.get(f"{prefix}active_file", 0) // 2
    cache += stat.get("slab_reclaimable", 0) // 2
    return max(0, cache - stat.get(f"{waiting}dirty", 0) - stat.get(f"{waiting}writeback", 0))


def _read(version: int, folder: Path, root: Path) -> Cgroup | None:
    limit_name, usage_name = _LIMITS[version][0]
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
        "/" if folder == root else f"/{folder.relative_to(root)}",
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
