"""A probe that cannot record leaves the JVM as it would be without the probe."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import waiting_jvm
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe import control

CANNOT_CREATE = 104


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_an_agent_without_a_live_file_lets_the_jvm_start(
    version: int, jre: Callable[[int], Path], probe_library: Path
) -> None:
    """Any result of Agent_OnLoad but 0 ends the JVM before its main method."""
    outcome = subprocess.run(
        [jre(version), f"-agentpath:{probe_library}=file=/nonexistent/a.live", "-version"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0, outcome.stderr
    said = "offheap: cannot create /nonexistent/a.live: no such directory; nothing is recorded\n"
    assert said in outcome.stderr


@pytest.mark.parametrize("version", [version for version in JRE_VERSIONS if version >= 17])
def test_a_failed_attach_leaves_the_library(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    """HotSpot closes a library whose Agent_OnAttach fails, but another thread may be in an event of it."""
    copy = Path(shutil.copy(probe_library, tmp_path))
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        vm = AttachedVM(jvm.pid)
        for _ in range(3):
            assert control.ask(vm, str(copy), "start,file=/nonexistent/a.live") == CANNOT_CREATE
        found = control.loaded(jvm.pid)
        assert found is not None
        assert found.libraries == (str(copy),)
        started = control.start(jvm.pid)
        assert started.how == "started"
        assert control.detach(jvm.pid).state == "stopped"
        started.live_file.unlink()
        assert jvm.answers()
