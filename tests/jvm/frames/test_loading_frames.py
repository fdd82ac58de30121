"""Java frames of the VM's allocations while Java waits for a class, for every requester of the class."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.paths import JAVA
from harness.plugins.rotation import one_a_row
from offheap import recording
from offheap.recording.model import Frame, Recording

SOURCE = JAVA / "Loading.java"
TIMES = 100

# Innermost first.
DEFINING = "Java_java_lang_ClassLoader_defineClass1"
LOADER = "Loading$Loader.loadClass"
DEFINED = (
    DEFINING,
    "java.lang.ClassLoader.defineClass1",
    "java.lang.ClassLoader.defineClass",
    "java.lang.ClassLoader.defineClass",
    LOADER,
)
BY_NAME = (*DEFINED, "Loading.byName", "Loading.all")
# Java, the VM and Java again: HotSpot keeps no frame of the VM in between.
NEEDING = ("Loading$Plugin.run", "Loading.byNeed")
BY_NEED = (*DEFINED, "java.lang.ClassLoader.loadClass", *NEEDING)
# Blocks of the VM for a class that it needs, besides those of the definition.
THE_VMS_OWN = {11: 1, 17: 2, 21: 3, 25: 3}


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-nowarn", "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def allocated(found: Recording) -> list[tuple[int, list[Frame]]]:
    """Every stack with its blocks ever allocated, of a live file, which has one snapshot."""
    return [(int(row["allocated_blocks"]), found.stack(int(row["stack"]))) for row in found.series]


def contains(stack: list[Frame], chain: tuple[str, ...]) -> bool:
    names = tuple(frame.name for frame in stack)
    return any(names[at : at + len(chain)] == chain for at in range(len(names)))


def counted(stacks: list[tuple[int, list[Frame]]], chain: tuple[str, ...]) -> int:
    """The blocks of the stacks that contain the chain."""
    return sum(blocks for blocks, stack in stacks if contains(stack, chain))


def allocated_by_the_vm(stack: list[Frame], callers: tuple[str, ...]) -> bool:
    """Whether the VM allocated, with these callers as the innermost Java frames."""
    at = next((at for at, frame in enumerate(stack) if frame.kind == "java"), 0)
    names = tuple(frame.name for frame in stack[at : at + len(callers)])
    return at > 0 and stack[at - 1].kind == "jvm" and names == callers


@pytest.mark.parametrize(
    ("version", "options"),
    # C2 alone would take a minute of CPU on JDK 11.
    one_a_row((11, 17, 21, 25), ("-XX:+TieredCompilation", "-Xint", "-Xcomp -XX:TieredStopAtLevel=1")),
)
def test_what_the_vm_allocates_for_a_class_has_java_frames(
    version: int, options: str, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    outcome = subprocess.run(
        [jre(version), "-Xmx64m", *options.split(), "-cp", classes, "Loading", str(TIMES)],
        env={**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={tmp_path}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode == 0, outcome.stderr
    (file,) = tmp_path.glob("*.live")
    found = recording.load(file)
    stacks = allocated(found)

    defining = [(blocks, stack) for blocks, stack in stacks if any(f.name == DEFINING for f in stack)]
    loading = [(blocks, stack) for blocks, stack in defining if any(f.name == LOADER for f in stack)]
    # A few stacks of C1 code end at the VM without a mark: AsyncGetCallTrace does not pass the calling stubs.
    assert counted(defining, DEFINED[:2]) >= 0.95 * sum(blocks for blocks, _ in defining)
    by_name, by_need = counted(loading, BY_NAME), counted(loading, BY_NEED)
    assert by_name + by_need >= 0.95 * sum(blocks for blocks, _ in loading)
    assert by_name >= 20 * TIMES
    assert by_need >= 2.8 * TIMES
    itself = sum(blocks for blocks, stack in stacks if allocated_by_the_vm(stack, NEEDING))
    assert itself >= 0.95 * THE_VMS_OWN[version] * TIMES
