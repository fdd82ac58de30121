"""--java-heap in a JVM that runs: what is left after it, and other agents that sample objects."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import offheap, run_offheap
from harness.jvms import java_homes
from harness.jvms.collectors import COLLECTORS
from harness.jvms.heap_cases import JDKS, OPTIONS, PROGRAMS, Setting, ask, attached
from harness.jvms.waiting_jvm import waiting_jvm
from harness.jvms.zoo import Running, Zoo
from harness.native.compiler import compile_c
from harness.paths import AGENTS
from harness.plugins.rotation import one_a_row
from offheap.jvm.listener.attach import AttachedVM
from offheap.recording.storage.reader import load

pytestmark = pytest.mark.usefixtures("probe_library")
SECONDS = 4.0


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent that samples objects, too."""
    library = tmp_path_factory.mktemp("sampler") / "object_sampler.so"
    return compile_c([AGENTS / "object_sampler.c"], library, flags=["-shared", "-fPIC"])


def weak_references(pid: int) -> int:
    found = re.search(r"JNI global refs: \d+, weak refs: (\d+)", AttachedVM(pid).jcmd("Thread.print"))
    assert found
    return int(found[1])


@pytest.mark.parametrize(("version", "collector"), one_a_row(JDKS, COLLECTORS))
def test_nothing_is_left_and_a_second_attach_works(
    version: int, collector: str, zoo: Zoo, jre: Callable[[int], Path], sampler: Path, tmp_path: Path
) -> None:
    java, setting = jre(version), Setting(version, collector, "attach")
    if not setting.present():
        needs.skip(f"a JRE {version} with {collector} in .jres", needs.JRES)
    with Running(zoo.command(PROGRAMS["static-map"], java, heap=setting.heap)) as running:
        running.truths(1)
        before = weak_references(running.pid)
        for number in (1, 2):
            output = tmp_path / f"{number}.offheap"
            with attached(running.pid, output):
                time.sleep(SECONDS)
                assert weak_references(running.pid) > before + 20
            assert weak_references(running.pid) == before
            found = ask("leaks", output, "--all", "--json")["java_heap"]
            assert found["state"] == "followed"
            assert any(
                frame["name"] == "leaks.StaticMap.answer"
                for suspect in found["suspects"]
                for frame in suspect["stack"]
            )
        # One agent at a time may have the capability.
        assert AttachedVM(running.pid).load_agent(sampler, "") == 0
        assert running.exit() == 0, running.errors


@pytest.mark.parametrize("version", [11, 25])
def test_another_agent_holds_the_sampler(
    version: int, zoo: Zoo, jre: Callable[[int], Path], sampler: Path, tmp_path: Path
) -> None:
    program, output = PROGRAMS["connections"], tmp_path / "taken.offheap"
    command = zoo.command(program, jre(version))
    command.insert(1, f"-agentpath:{sampler}")
    with Running(command) as running:
        running.truths(1)
        with attached(running.pid, output):
            time.sleep(SECONDS)
        assert running.exit() == 0, running.errors
    found = ask("leaks", output, "--all", "--json")
    assert found["java_heap"]["state"] == "taken"
    assert found["java_heap"]["suspects"] == []
    assert any("another agent" in sentence for sentence in found["java_heap"]["coverage"])
    names = {frame["name"] for suspect in found["suspects"] for frame in suspect["stack"]}
    assert "leaks.Connections.connect" in names, "native memory is recorded all the same"


def test_offheap_holds_the_sampler_while_it_records(
    zoo: Zoo, jre: Callable[[int], Path], sampler: Path, tmp_path: Path
) -> None:
    with Running(zoo.command(PROGRAMS["static-map"], jre(21))) as running:
        running.truths(1)
        with attached(running.pid, tmp_path / "first.offheap"):
            assert AttachedVM(running.pid).load_agent(sampler, "") != 0
        assert AttachedVM(running.pid).load_agent(sampler, "") == 0
        assert running.exit() == 0, running.errors


def test_the_collection_that_was_asked_for_is_in_the_recording_of_a_probe_that_stays(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    output = tmp_path / "kept.offheap"
    with waiting_jvm(jre(21), waiting_classes) as jvm:
        options = ["--java-heap", "--keep", "--gc", "--duration", "2s", "-o", str(output)]
        run_offheap("attach", jvm.pid, *options)
        Path(json.loads(run_offheap("detach", jvm.pid, "--json").stdout)["live_file"]).unlink()
    ran = load(output).collections
    assert ran is not None
    assert "full" in ran.kinds


@pytest.mark.parametrize("version", [17, 25])
def test_a_killed_jvm_leaves_a_recording_with_its_objects(
    version: int, zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    """In the middle of collections: the program requests one each 1.5 s, and the heap is small."""
    output = tmp_path / "killed.offheap"
    command = zoo.command(PROGRAMS["static-map"], jre(version))
    with Running(offheap("run", *OPTIONS, "-o", output, "--", *command)) as running:
        running.truths(6)
        os.kill(running.pid, signal.SIGKILL)
        running.process.wait(60)
    found = ask("leaks", output, "--all", "--json")["java_heap"]
    assert found["state"] == "followed"
    assert found["survivors"]["bytes"]["estimate"] > 0


@needs.unless(8 in java_homes.JRE_VERSIONS, "a JRE 8", "set OFFHEAP_JDKS to the home of a JRE 8")
def test_jdk_8_has_no_sampler_and_native_memory_is_recorded(
    jre: Callable[[int], Path], tmp_path: Path
) -> None:
    output = tmp_path / "old.offheap"
    command = offheap("run", "--java-heap", "-o", output, "--", str(jre(8)), "-version")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no allocation sampler") == 1
    assert ask("leaks", output, "--json")["java_heap"]["state"] == "unavailable"
