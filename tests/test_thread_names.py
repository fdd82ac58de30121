"""Whose blocks are they: the JVM's own threads by name, on every JDK."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import soak
from offheap import recording


@pytest.fixture(scope="module")
def jar(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return soak.compile_stress(jdk, tmp_path_factory.mktemp("names"))


def blocks_by_thread(java: Path, jar: Path, library: Path, folder: Path, *options: str) -> Counter[str]:
    """Live blocks of the stress program at its end, by the thread that has allocated them, digits as #."""
    outcome = subprocess.run(
        [java, "-Xmx192m", *options, f"-javaagent:{jar}", "-cp", jar, "Stress", "50", "return"],
        env={**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": f"exact,dir={folder}"},
        input="\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode == 0, outcome.stderr
    (file,) = folder.glob("*.live")
    found = recording.load(file)
    threads = Counter(found.live["thread"].tolist())
    names: Counter[str] = Counter()
    for thread, blocks in threads.items():
        names[re.sub(r"\d+", "#", found.threads[thread])] += blocks
    return names


@pytest.mark.parametrize("version", [11, 17, 21, 25])
def test_the_jvms_own_threads_have_names(
    version: int, jre: Callable[[int], Path], jar: Path, probe_library: Path, tmp_path: Path
) -> None:
    """Compilers and collectors name themselves only after their first allocations."""
    names = blocks_by_thread(
        jre(version), jar, probe_library, tmp_path, "-XX:+UseG1GC", "-XX:+AlwaysPreTouch"
    )
    # The kernel keeps 15 characters.
    for wanted in ("VM Thread", "C# CompilerThre", "main"):
        assert names[wanted], names
    assert any(name.startswith(("GC Thread", "G# ")) for name in names), names
