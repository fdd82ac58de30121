"""The garbage collectors of HotSpot: the options that choose one, and which a JVM was built with."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

COLLECTORS: dict[str, tuple[str, ...]] = {
    "G1": ("-XX:+UseG1GC",),
    "Serial": ("-XX:+UseSerialGC",),
    "Parallel": ("-XX:+UseParallelGC",),
    # Experimental in 11, where Shenandoah may be, too.
    "ZGC": ("-XX:+UnlockExperimentalVMOptions", "-XX:+UseZGC"),
    "Shenandoah": ("-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC"),
}
# 21 to 23 have both ZGCs; before them there is none with generations, after them no other.
GENERATIONAL_ZGC = ("-XX:+UseZGC", "-XX:+ZGenerational")


@functools.cache
def present(java: Path, options: tuple[str, ...]) -> bool:
    """Whether this JVM starts with these options."""
    return subprocess.run([java, *options, "-version"], capture_output=True, timeout=60).returncode == 0
