"""Small file systems and memory cgroups, made for one test and removed after it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness import needs

FileSystem = Literal["tmpfs", "ext4"]


@contextlib.contextmanager
def small_file_system(kind: FileSystem, folder: Path, mib: int) -> Iterator[Path]:
    """Mounts a file system at a new folder in `folder`; ext4 has its image beside it."""
    place, image = folder / kind, folder / "image"
    place.mkdir()
    needs.root("to mount a small file system")
    if kind == "tmpfs":
        commands = [["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(place)]]
    else:
        with image.open("wb") as file:
            file.truncate(mib << 20)
        commands = [
            ["mkfs.ext4", "-q", "-F", "-m", "0", str(image)],
            ["mount", "-o", "loop", str(image), str(place)],
        ]
    for command in commands:
        needs.mounted(command)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@dataclass(frozen=True)
class MemoryCgroup:
    """A cgroup of version 1 or 2, without swap; `limit_file` and `usage_file` are what the two call them."""

    group: Path
    limit_file: str
    usage_file: str

    def limit(self, size: int) -> None:
        for file in (self.limit_file, "memory.memsw.limit_in_bytes", "memory.swap.max"):
            if (self.group / file).exists():
                (self.group / file).write_text("0" if "swap.max" in file else str(size))

    def enter(self) -> None:
        """Moves the calling process into the group."""
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def used(self) -> int:
        """Bytes charged to the group, without pages of files on a disk, which the kernel can drop."""
        lines = (self.group / "memory.stat").read_text().splitlines()
        stat = {name: int(value) for name, value in (line.split() for line in lines)}
        usage = int((self.group / self.usage_file).read_text())
        return usage - stat["active_file"] - stat["inactive_file"]

    def kills(self) -> int:
        """How many processes of the group the kernel has killed."""
        version_2 = self.group / "memory.events"
        text = (version_2 if version_2.exists() else self.group / "memory.oom_control").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


@contextlib.contextmanager
def memory_cgroup() -> Iterator[MemoryCgroup]:
    """A new group, without a limit yet; it must be empty again at the end."""
    kinds = {
        "/sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        "/sys/fs/cgroup": ("memory.max", "memory.current"),
    }
    for tree, files in kinds.items():
        group = Path(tree) / f"offheap-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if all((group / file).exists() for file in files):
                yield MemoryCgroup(group, *files)
                return
        finally:
            _remove(group)
    needs.skip("a memory cgroup of its own", "run as root where /sys/fs/cgroup can be written")


def _remove(group: Path) -> None:
    """Removes the group; killed processes stay in it for a moment."""
    deadline = time.monotonic() + 30
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
