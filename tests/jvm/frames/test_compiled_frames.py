"""The innermost Java frame made the call, even if AsyncGetCallTrace gives another frame or none."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.java_homes import JRE_VERSIONS
from harness.native.compiler import compile_c
from harness.paths import AGENTS, JAVA
from offheap import recording
from offheap.analysis.leaks.answer import headline
from offheap.analysis.leaks.leaks import ranking
from offheap.recording.model import Frame, Recording

WAYS = ("instances", "bytes", "references", "grids", "copies", "strings", "lambdas", "reflected")
# The first frames of other threads, and of the Java code that the VM runs before main.
ELSEWHERE = {"java.lang.Thread.run", *(f"java.lang.System.initPhase{n}" for n in (1, 2, 3))}

pytestmark = needs.on_x86_64  # debug records of compiled code are read on x86-64 only


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    sources = [str(JAVA / f"{name}.java") for name in ("Downcalls", "Objects")]
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-nowarn", "-d", str(folder), *sources]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("agent") / "object_sampler.so"
    source = AGENTS / "object_sampler.c"
    return compile_c([source], output, flags=["-shared", "-fPIC", "-fvisibility=hidden"])


def record(command: list[str], probe: Path, live_file: Path) -> Recording:
    environment = {**os.environ, "LD_PRELOAD": str(probe), "OFFHEAP": f"exact,file={live_file}"}
    outcome = subprocess.run(
        command, env=environment, cwd=live_file.parent, capture_output=True, text=True, timeout=120
    )
    assert outcome.returncode == 0, outcome.stderr
    return recording.load(live_file)


def allocated_by(found: Recording, function: str) -> Iterator[tuple[int, list[Frame]]]:
    """Blocks ever allocated below a native function, by stack."""
    for row in found.series:
        stack = found.stack(int(row["stack"]))
        if any(frame.name == function for frame in stack):
            yield int(row["allocated_blocks"]), stack


@pytest.mark.parametrize("options", ["-XX:+TieredCompilation", "-XX:TieredStopAtLevel=1", "-Xint"])
def test_a_downcall_is_made_by_its_caller(
    options: str, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    """GIVEN methods inlined side by side WHEN one calls strdup THEN no other is reported."""
    rounds = 20_000 if options == "-Xint" else 400_000
    command = [str(jre(25)), "-Xmx64m", options, "--enable-native-access=ALL-UNNAMED", "-cp", str(classes)]
    found = record([*command, "Downcalls", str(rounds)], probe_library, tmp_path / "recording.live")
    callers = Counter[str]()
    for blocks, stack in allocated_by(found, "strdup"):
        of_ours = (frame.name for frame in stack if frame.name.startswith("Downcalls."))
        callers[next(of_ours, "none")] += blocks
    # The VM itself calls strdup at its start, and when it makes the downcalls.
    assert set(callers) <= {"Downcalls.duplicate", "Downcalls.function", "none"}, callers
    assert callers["Downcalls.duplicate"] == rounds
    assert callers["none"] < 200


@pytest.mark.parametrize(
    ("version", "options"),
    [
        # AsyncGetCallTrace ends early at JDK 11's interpreted lambda forms.
        (11, "-Xint"),
        (17, "-XX:TieredStopAtLevel=1"),
        (21, "-XX:+TieredCompilation"),
        (25, "-XX:-TieredCompilation"),
        *(
            pytest.param(version, options, marks=pytest.mark.slow)
            for version in JRE_VERSIONS
            for options in (
                "-XX:+TieredCompilation",
                "-XX:-TieredCompilation",
                "-XX:TieredStopAtLevel=1",
                "-Xint",
            )
        ),
    ],
)
def test_what_an_agent_allocates_beside_an_object_has_java_frames(
    version: int,
    options: str,
    jre: Callable[[int], Path],
    classes: Path,
    agent: Path,
    probe_library: Path,
    tmp_path: Path,
) -> None:
    """GIVEN an agent with object events WHEN it allocates THEN its stack leads to the object's creator."""
    command = [str(jre(version)), "-Xmx64m", options, f"-agentpath:{agent}", "-cp", str(classes)]
    found = record([*command, "Objects", "1500"], probe_library, tmp_path / "recording.live")
    whole, joined, ways = 0, 0, Counter[str]()
    for blocks, stack in allocated_by(found, "sampled"):
        java = [frame for frame in stack if frame.kind == "java"]
        if java and java[-1].name in ELSEWHERE:
            continue
        whole += blocks
        joined += blocks * (bool(java) and java[-1].name == "Objects.main")
        ways.update({frame.name.removeprefix("Objects."): blocks for frame in java[:20]})
    assert whole > 2000
    assert joined >= 0.995 * whole, (joined, whole)
    assert all(ways[way] > 0 for way in WAYS), ways
    # All Java code triggers memory of the agent: one suspect, which names the agent.
    (its,) = [one for one in ranking(found) if any(frame.name == "sampled" for frame in one.site.stack)]
    assert its.blamed.name == "sampled"
    assert headline(its).startswith(
        "object_sampler.so callback (SampledObjectAlloc), in sampled, triggered by alloc"
    )
    assert {f"Objects.{way}" for way in WAYS} <= {frame.name for frame in its.triggers}
