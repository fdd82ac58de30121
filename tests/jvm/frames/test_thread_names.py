"""The JVM's own threads and their blocks, by name, on every JDK and with every collector."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.collectors import COLLECTORS
from harness.jvms.java_homes import JRE_VERSIONS
from harness.plugins.rotation import one_a_row
from harness.survival import survival_matrix
from offheap import recording
from offheap.recording.model import Recording

# Threads that have live blocks at the end of any run; the kernel keeps 15 characters of a name.  JDK 21's ZGC
# has one generation by default and an X in its names; the VM thread does the serial collector's work.
COLLECTING: dict[str, tuple[str, ...]] = {
    "G1": (r"GC Thread#\d+",),
    "Serial": (),
    "Parallel": (r"(Par)?GC Thread#\d+",),
    "ZGC": (r"[XZ](Driver|Worker).*",),
    "Shenandoah": (r"Shenandoah ?Cont.*", "Shenandoah GC T"),
}
# Only threads of one name allocate below each of these functions.
WORK = {
    "Compiler::compile_method(": ("C1 CompilerThre", "C1 Comp..hread0"),  # JDK 26 cuts names in the middle
    "C2Compiler::compile_method(": ("C2 CompilerThre", "C2 Comp..hread0"),
    "VMThread::run(": ("VM Thread",),
}


@pytest.fixture(scope="module")
def jar(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return survival_matrix.compile_stress(jdk, tmp_path_factory.mktemp("names"))


def record_stress(java: Path, jar: Path, library: Path, folder: Path, *options: str) -> Recording:
    """The stress program at its end."""
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
    return recording.load(file)


def blocks_by_work(found: Recording) -> dict[str, Counter[str]]:
    """Live blocks below each function of WORK, by thread."""
    works = [
        {start for frame in found.stack(number) for start in WORK if frame.name.startswith(start)}
        for number in range(len(found.stack_kinds))
    ]
    blocks: dict[str, Counter[str]] = defaultdict(Counter)
    for row in found.live:
        for work in works[row["stack"]]:
            blocks[work][found.threads[row["thread"]]] += 1
    return blocks


@pytest.mark.parametrize(("version", "collector"), one_a_row(JRE_VERSIONS, COLLECTING))
def test_the_jvms_own_threads_have_names(
    version: int, collector: str, jre: Callable[[int], Path], jar: Path, probe_library: Path, tmp_path: Path
) -> None:
    """Compilers and collectors name themselves only after their first allocations."""
    java, options = jre(version), COLLECTORS[collector]
    if subprocess.run([java, *options, "-version"], capture_output=True, timeout=60).returncode:
        needs.skip(f"a JRE {version} with {collector}", "use another build of that JDK in .jres")
    found = record_stress(java, jar, probe_library, tmp_path, *options, "-XX:+AlwaysPreTouch")
    names = Counter(found.threads[number] for number in found.live["thread"])
    assert names["main"], names
    # From JDK 26 on, Shenandoah's threads do not allocate.
    own = COLLECTING[collector] if version < 26 or collector != "Shenandoah" else ()
    for pattern in own:
        assert any(re.fullmatch(pattern, name) for name in names), names
    collecting = {name for name in found.threads if re.search(r"GC|^[XZ][DW]|^Shen", name)}
    patterns = "|".join(own)
    assert {name for name in collecting if not re.fullmatch(patterns, name)} == set()
    blocks = blocks_by_work(found)
    for work, threads in WORK.items():
        named = sum(blocks[work][thread] for thread in threads)
        assert named >= 10, blocks
        # The first blocks of a thread have the name of the thread that started it.
        assert blocks[work].total() - named <= 3, blocks
