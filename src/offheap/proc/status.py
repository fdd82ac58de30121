"""Data of /proc about a process that need no rights beyond its visibility (proc(5))."""

from __future__ import annotations

import os
import pwd
import re
import time
from dataclasses import dataclass
from pathlib import Path

from offheap.proc.time_limit import within

_PF_KTHREAD = 0x00200000  # include/linux/sched.h
_MOST_BYTES = 8 << 20  # of arguments or variables: the kernel accepts 6 MiB of both together
_SECONDS = 5.0  # for the read of these


@dataclass(frozen=True, slots=True)
class Status:
    """/proc/PID/status and field 22 of /proc/PID/stat, at one moment.

    state          the one letter of ps: R, S, D, T (stopped), t (traced), Z (zombie), X (dead)
    uid, gid       effective, which HotSpot compares with its clients'
    rss_bytes      0 for a process without memory of its own
    namespace_pids the same process in its PID namespaces, outermost first
    caught         mask of the signals with a handler, bit 0 is signal 1
    start_ticks    clock ticks since boot; unique together with the PID
    kernel_thread  never had its own memory; other processes lose theirs before they are zombies
    """

    pid: int
    name: str
    state: str
    uid: int
    gid: int
    threads: int
    rss_bytes: int
    namespace_pids: tuple[int, ...]
    caught: int
    start_ticks: int
    kernel_thread: bool

    @property
    def namespace_pid(self) -> int:
        """The PID as the process sees itself."""
        return self.namespace_pids[-1]

    @property
    def user(self) -> str:
        """Name of the effective user, or its number if it has no name here."""
        return user_name(self.uid)

    @property
    def uptime_seconds(self) -> float:
        """Seconds since the process started."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(0.0, now - self.start_ticks / os.sysconf("SC_CLK_TCK"))

    @property
    def alive(self) -> bool:
        """False for a zombie: it has a PID, but no memory, threads or files."""
        return self.state not in "ZXx"

    def catches(self, signal_number: int) -> bool:
        """Whether the process has a handler for the signal."""
        return bool(self.caught >> (signal_number - 1) & 1)


def read(pid: int) -> Status:
    """Raises ProcessLookupError when there is no such process."""
    proc = Path(f"/proc/{pid}")
    try:
        # Bytes, decoded here: read_text ends a line at a carriage return in a name.
        status = (proc / "status").read_bytes().decode(errors="surrogateescape")
        stat = (proc / "stat").read_bytes().decode(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(f"no process {pid}") from None
    return parse(pid, status, stat)


def parse(pid: int, status: str, stat: str) -> Status:
    """Reads the text of /proc/PID/status and /proc/PID/stat; ValueError when it is neither."""
    fields: dict[str, str] = {}
    # At "\n" alone, which the kernel escapes in names: a name with another separator could fake a Uid.
    for line in status.split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key, value.strip())
    # The name in stat may itself hold spaces and brackets: count fields from the last ')'.
    after_name = stat.rpartition(")")[2].split()
    try:
        return Status(
            pid=pid,
            name=fields["Name"],
            state=fields["State"][:1],
            uid=int(fields["Uid"].split()[1]),
            gid=int(fields["Gid"].split()[1]),
            threads=int(fields.get("Threads", "0")),
            rss_bytes=int(fields.get("VmRSS", "0 kB").split()[0]) * 1024,
            namespace_pids=tuple(int(n) for n in fields.get("NSpid", "").split()) or (pid,),
            caught=int(fields.get("SigCgt", "0"), 16),
            start_ticks=int(after_name[19]),
            kernel_thread=bool(int(after_name[6]) & _PF_KTHREAD),
        )
    except (KeyError, IndexError) as error:
        raise ValueError(f"not the status of a process: {error}") from None


def identity() -> tuple[int, int, int]:
    """PID, start time and PID namespace of this process: containers may number PIDs differently."""
    its = read(os.getpid())
    return its.pid, its.start_ticks, os.stat("/proc/self/ns/pid").st_ino


def pids() -> list[int]:
    """Every process of this PID namespace, in order."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())


def anonymous_bytes(pid: int) -> int:
    """A process's RSS without its files; 0 when unknown (before Linux 4.5, another user's process)."""
    try:
        text = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    found = re.search(rb"^RssAnon:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def command_line(pid: int) -> tuple[str, ...]:
    """Arguments, argv[0] first; empty for a kernel thread, a zombie, or no process."""
    try:
        raw = _memory_of(pid, "cmdline")
    except OSError:
        return ()
    return tuple(os.fsdecode(a) for a in raw.rstrip(b"\0").split(b"\0")) if raw else ()


def environment(pid: int) -> dict[str, str]:
    """Variables from the start of the process; empty without the right to read them."""
    try:
        raw = _memory_of(pid, "environ")
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if entry)
    return {key: value for key, _, value in pairs}


def _memory_of(pid: int, name: str) -> bytes:
    """A /proc file with text from the process's memory, which may be a mapped file that never answers."""
    path = f"/proc/{pid}/{name}"

    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES)

    return within(_SECONDS, read)


def user_name(uid: int) -> str:
    """Name of a user, or the number when this machine knows no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
