"""The Java program of `offheap demo`: where it is, and how it is compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from offheap.errors import UserError

DEMO = Path(__file__).resolve().parent


def find_jdk() -> Path:
    """Home of a JDK: JAVA_HOME, that of the javac on PATH, one in /usr/lib/jvm; UserError without any."""
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    compiler = shutil.which("javac")
    if compiler:
        candidates.append(Path(compiler).resolve().parent.parent)
    candidates += sorted(Path("/usr/lib/jvm").glob("*"))
    for home in candidates:
        if all(os.access(home / "bin" / tool, os.X_OK) for tool in ("java", "javac")):
            return home
    raise UserError(
        "the demo needs a JDK (java and javac), and there is none in JAVA_HOME, PATH or /usr/lib/jvm",
        "install one, on Debian `apt-get install default-jdk-headless`",
    )


def compile_demo(home: Path, classes: Path) -> None:
    """Compiles the shop for Java 11 into a folder; UserError with the compiler's first words if it cannot."""
    sources = sorted(map(str, DEMO.rglob("*.java")))
    command = [str(home / "bin" / "javac"), "-nowarn", "--release", "11", "-d", str(classes), *sources]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(
            f"{command[0]} does not run: {error}", "set JAVA_HOME to a JDK 11 or newer"
        ) from error
    if done.returncode:
        first = (done.stderr.strip() or f"status {done.returncode}").splitlines()[0]
        raise UserError(f"{command[0]} says: {first}", "set JAVA_HOME to a JDK 11 or newer")
