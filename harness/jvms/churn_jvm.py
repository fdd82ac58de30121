"""JVMs that allocate and free native memory all the time: Churn.java, LeakUnderChurn.java."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.jvms import java_homes
from harness.paths import JAVA

JDKS = (17, 25)
WORKLOADS = {
    "zip": "zip create/end",
    "unsafe": "Unsafe pair",
    "zip8k": "zip 8 KB blocks",
    "direct": "direct buffers",
}
OPTIONS = ["-Xmx128m", "-XX:+UseSerialGC"]


def churn(jdk: int, classes: Path, agent: Sequence[str] = ()) -> list[str]:
    """The command of Churn.java; its arguments are a workload, seconds of warm-up and seconds to measure."""
    return [str(java_homes.java(jdk)), *OPTIONS, *agent, "-cp", str(classes), "Churn"]


def cpu_ns(pid: int) -> int:
    """CPU time of a process, all threads that ever were: clock_getcpuclockid(3)'s encoding."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def compile_java(name: str, folder: Path) -> Path:
    """Compiles a source of harness/programs/java into the folder; needs a JDK >= 11."""
    homes = java_homes.jdk_homes()
    home = next(homes[version] for version in sorted(homes) if version >= 11)
    source = JAVA / name
    command = [str(home / "bin" / "javac"), "-nowarn", "--release", "11", "-d", str(folder), str(source)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if outcome.returncode != 0:
        sys.exit(f"javac failed:\n{outcome.stderr}")
    return folder
