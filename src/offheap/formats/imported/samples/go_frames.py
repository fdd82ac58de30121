"""The functions that Go names in comments below a stack of its heap profile in text.

    2: 1024 [2: 1024] @ 0x47c32c 0x4d96a9 0x44cd15
    #	0x4d96a8	main.leak+0x28		/src/heap.go:12
    #	0x44cd14	runtime.main+0x2d4	/usr/local/go/src/runtime/proc.go:290

The source of the format is printStackRecord in Go's src/runtime/pprof/pprof.go.  It leaves out the functions
of the allocator, so a stack is what its comments have, and not what its addresses are.  An address is that of
the call: a return address less 1.  Where several functions have one, the compiler inlined all but the last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from offheap.recording.model import Chain, Frame

_CALL = re.compile(
    r"#\t0x(?P<address>[0-9a-f]{1,16})(?:\t+(?P<name>\S.*?)\+0x[0-9a-f]+\t+(?P<file>.*):(?P<line>\d{1,9}))?\s*"
)


class NamedCall(NamedTuple):
    address: int
    frame: Frame


def call(comment: str) -> NamedCall | None:
    """None for any other comment."""
    found = _CALL.fullmatch(comment)
    if not found:
        return None
    address = int(found["address"], 16)
    if not found["name"]:
        return NamedCall(address, Frame(f"0x{address:x}", "unknown"))
    return NamedCall(address, Frame(found["name"], "native", "", found["file"], int(found["line"])))


def chains(calls: Sequence[NamedCall]) -> list[tuple[int, Chain]]:
    """The addresses of one stack with the functions at each, innermost first."""
    found: list[tuple[int, list[Frame]]] = []
    for address, frame in calls:
        # A recursion has the same function again.
        if found and found[-1][0] == address and frame not in found[-1][1]:
            found[-1][1].append(frame)
        else:
            found.append((address, [frame]))
    return [
        (address, (*(frame._replace(inlined=True) for frame in inlined), outer))
        for address, (*inlined, outer) in found
    ]
