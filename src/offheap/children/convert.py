"""A program of its own: `convert.py IMAGE SYMCACHE` turns DWARF into a symcache.

It runs as a child because 700 MB of DWARF take a gigabyte for seconds, which must go back to the
system, and because broken debug information must not crash the recorder.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import sys

MEMORY = 3 << 30  # bytes of address space, the mapped image included
SECONDS = 300  # of processor time


def convert(image: str, symcache: str) -> None:
    # If memory runs out where the target runs, the kernel should kill this process, not a JVM.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # A command that reads a recording has a lower limit (recording/allowance.py).
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    archive = importlib.import_module("symbolic.debuginfo").Archive.open(image)
    cache = next(archive.iter_objects()).make_symcache()
    with open(symcache, "wb") as output:
        cache.dump_into(output)


if __name__ == "__main__":
    convert(sys.argv[1], sys.argv[2])
