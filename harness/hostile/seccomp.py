"""Takes system calls away from a process, for tests of what must work without them."""

from __future__ import annotations

import ctypes
import os
import struct

# What the probe asks of the kernel beyond what every program does; numbers of x86-64.
WISHES = {
    "madvise": 28,
    "fstatfs": 138,
    "prctl": 157,
    "fallocate": 285,
    "process_vm_readv": 310,
    "membarrier": 324,
    "rseq": 334,
}


def forbid(numbers: list[int]) -> None:
    """A seccomp filter: EPERM for these system calls."""
    code = [(0x20, 0, 0, 0)]  # the number
    for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
        code.append((0x15, left, 0, number))
    code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    filter_ = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.c_char_p(filter_)) != 0:
        os._exit(99)
