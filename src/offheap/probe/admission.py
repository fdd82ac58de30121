"""Whether a process has room for the probe below its memory limit, before offheap loads the probe.

The kernel kills a process that exceeds the limit of its memory cgroup.  Therefore the probe takes at most
half of the room, with smaller tables if needed (probe/store/section_sizes.h); if even the smallest tables
are too large, offheap does not load the probe.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from offheap.errors import UserError
from offheap.proc import cgroup, status
from offheap.quantities import format_size

# The smallest tables with their companions, probe/store/section_sizes.c.
PROBE_BYTES = 2104 << 10
# Most memory of a recorder that the kernel cannot drop: 26 MiB while it records, 35 when it names frames,
# 45 to 55 when it writes the tables.  The rest of its RSS is pages of libraries.
RECORDER_BYTES = 60 << 20
# The least memory of a JVM: the need of a program is unknown before its start.
_PROGRAM_BYTES = 40 << 20
# The probe takes one part in this many of the room: the program may need more memory itself.
_SHARE_OF_ROOM = 2
# One part in this many of the limit at a program's start: its need is not known yet.
_SHARE_OF_LIMIT = 16


@dataclass(frozen=True, slots=True)
class ProbeAllowance:
    """Bytes that the probe may take, None: no limit; `why`: the reason for smaller tables."""

    bytes: int | None = None
    why: str = ""

    @property
    def words(self) -> str:
        """The allowance as the probe's options (probe/options.h)."""
        return "" if self.bytes is None else f"room={self.bytes}"


def admit(pid: int, *, starting: bool = False, recorder: bool = True) -> ProbeAllowance:
    """The probe's allowance in a process; UserError when the room is too small.

    starting  the process is this one, and starts another one under the probe
    recorder  a recorder shares the limit: this process, which has not reached its full size yet
    """
    room = cgroup.room(pid)
    if room is None:
        return ProbeAllowance()
    beside = _growth() if recorder and cgroup.shares(os.getpid(), room) else 0
    left = max(0, room.left - beside - (_PROGRAM_BYTES if starting else 0))
    allowed = left // _SHARE_OF_ROOM
    if starting:
        allowed = min(allowed, room.limit // _SHARE_OF_LIMIT)
    whose = "its container" if starting else f"PID {pid}'s container"
    has = f"the memory limit of {whose} is {format_size(room.limit)}, {format_size(room.left)} of it free"
    takers = [f"{format_size(beside)} for this recorder"] if beside else []
    takers += [f"{format_size(_PROGRAM_BYTES)} for the program"] if starting else []
    if takers:
        has += f", of which it takes {' and '.join(takers)}"
    grants = f"{has}: the probe may take {format_size(allowed)}"
    if allowed < PROBE_BYTES:
        raise UserError(
            f"{grants}, and needs {format_size(PROBE_BYTES)}",
            "raise the limit"
            + (", record from outside of the container" if beside and not starting else "")
            + ", or risk that the kernel kills the program, with --force",
        )
    return ProbeAllowance(allowed, f"{grants}, so its tables are smaller")


def _growth() -> int:
    """The bytes by which this process may still grow."""
    return max(0, RECORDER_BYTES - status.anonymous_bytes(os.getpid()))
