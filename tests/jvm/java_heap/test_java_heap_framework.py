"""A framework from Maven Central starts and serves under --java-heap: its caches and pools are no leak."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import offheap
from harness.evaluation import published_programs
from harness.jvms.heap_cases import SWEPT_SECONDS, ask
from harness.jvms.zoo import Running
from harness.peers import maven
from harness.plugins.rotation import one_of
from offheap.jvm.listener.collection import collect

PROGRAM = published_programs.programs()["vertx-warm-up"]
SECONDS = 25.0


@pytest.mark.usefixtures("probe_library")
@pytest.mark.parametrize("version", one_of(PROGRAM.jdks))
def test_the_start_of_a_server_is_not_accused(
    version: int, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    java, output, scratch = jre(version), tmp_path / "server.offheap", tmp_path / "scratch"
    needs.program("mvn", "which fetches Vert.x")
    scratch.mkdir()
    try:
        ready = published_programs.prepare(PROGRAM)
    except maven.Unavailable as error:
        needs.skip(str(error), needs.INTERNET)
    except FileNotFoundError:
        needs.jdk(PROGRAM.release)
    command = ready.command(java, "healthy", scratch)
    with Running(offheap("run", "--java-heap", "-o", output, "--", *command)) as running:
        time.sleep(SECONDS)
        collect(running.pid)
        time.sleep(SWEPT_SECONDS)
        assert running.exit() == 0, running.errors
    found = ask("leaks", output, "--all", "--json")["java_heap"]
    assert found["state"] == "followed"
    accused = [one for one in found["suspects"] if one["verdict"] == "leak"]
    assert not accused, json.dumps(accused, indent=1)
    assert found["books"]["agrees"], found["books"]
    server = [one for one in found["suspects"] if any("io.vertx" in f["name"] for f in one["stack"])]
    assert server, "a recording of Vert.x has objects of Vert.x"
