"""`offheap attach` and `detach` with the real probe: in, out, in again, kept, and beside a preloaded one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command_line import run_offheap
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import read_line, waiting_jvm
from harness.paths import ROOT
from offheap import recording
from offheap.errors import UserError
from offheap.inspect import discovery
from offheap.jvm.listener.attach_listener import TargetGone
from offheap.probe import control, library
from offheap.proc import status

pytestmark = pytest.mark.usefixtures("probe_library")


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_attach_records_and_leaves(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        for turn in ("first", "again"):
            output = tmp_path / f"{turn}.offheap"
            told = run_offheap("attach", jvm.pid, "--duration", "0.5s", "--interval", "4k", "-o", output)
            assert "the probe is stopped" in told.stdout
            assert f"offheap leaks {output}" in told.stdout
            found = recording.load(output)
            assert found.info.pid == jvm.pid
            assert found.info.ended == "detached"
            assert found.info.entry == "attach"
            assert found.info.interval_bytes == 4096
            assert found.info.java_version.split(".")[0] == str(version)
            assert jvm.answers()
            # The probe is idle; one copy is loaded after any number of attaches, and no live file remains.
            left = control.loaded(jvm.pid)
            assert left
            assert left.libraries == (str(library.probe_library()),)
            assert left.live_file is None
        assert not list(Path("/dev/shm").glob(f"offheap-{jvm.pid}-*"))
        jvm_listed = discovery.find(jvm.pid)
        assert jvm_listed
        assert jvm_listed.recorded == "idle"
        assert "is stopped" in run_offheap("detach", jvm.pid, expect=2).stderr


def test_keep_leaves_it_recording_until_detach(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(17), waiting_classes, main="Attached") as jvm:
        told = run_offheap(
            "attach", "Attached", "--keep", "--exact", "--duration", "200ms", "-o", tmp_path / "a.offheap"
        )
        assert "the probe still records" in told.stdout
        listed = discovery.find(jvm.pid)
        assert listed
        assert listed.recorded == "recording"
        assert Path(listed.live_file).is_file()
        # Another attach joins the running recording, and says so.
        told = run_offheap("attach", jvm.pid, "--keep", "--duration", "200ms", "-o", tmp_path / "b.offheap")
        assert "left recording by an earlier attach" in told.stderr
        assert recording.load(tmp_path / "b.offheap").info.mode == "exact"
        result = json.loads(run_offheap("detach", "Attached", "--json").stdout)
        assert result["schema"] == "offheap.detach/1"
        assert result["probe"] == "stopped"
        try:
            assert recording.load(Path(result["live_file"])).info.ended == "detached"
        finally:
            Path(result["live_file"]).unlink()
        assert jvm.answers()


def test_a_preloaded_probe_is_recorded_and_stays(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    environment = {"LD_PRELOAD": str(library.probe_library()), "OFFHEAP": f"dir={tmp_path}"}
    with waiting_jvm(jre(17), waiting_classes, environment=environment) as jvm:
        present = control.loaded(jvm.pid)
        assert present
        assert present.preloaded
        assert present.live_file
        assert present.live_file.parent == tmp_path
        told = run_offheap("attach", jvm.pid, "--duration", "200ms", "-o", tmp_path / "a.offheap")
        assert "has had the probe since it started" in told.stderr
        assert "the probe still records" in told.stdout
        assert recording.load(tmp_path / "a.offheap").info.entry == "preload"
        # A stopped probe stays loaded and idle; an attach starts it again and loads no second copy.
        assert json.loads(run_offheap("detach", jvm.pid, "--json").stdout)["probe"] == "idle"
        told = run_offheap("attach", jvm.pid, "--json", "--duration", "200ms", "-o", tmp_path / "b.offheap")
        result = json.loads(told.stdout)
        assert (result["schema"], result["pid"]) == ("offheap.attach/1", jvm.pid)
        assert (result["probe"], result["ended"]) == ("started", "detached")
        assert recording.load(Path(result["recording"])).info.pid == jvm.pid
        present = control.loaded(jvm.pid)
        assert present
        assert len(present.libraries) == 1
        assert present.live_file is None
        assert jvm.answers()


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_small_java_threads_may_have_the_stack_of_the_probes(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes, main="Diving") as jvm:
        for _ in range(3):
            control.start(jvm.pid, "interval=4096").live_file.unlink()
            assert control.detach(jvm.pid).state == "stopped"
            assert jvm.answers(), f"it ended: {jvm.process.wait(10)}"


@pytest.mark.parametrize("version", [version for version in JRE_VERSIONS if version >= 21])
def test_newer_jvms_warn_of_the_probe_once(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """HotSpot warns of every agent that it has not seen before."""
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        for _ in range(3):
            control.start(jvm.pid, "interval=4096").live_file.unlink()
            assert control.detach(jvm.pid).state == "stopped"
        assert jvm.stderr().count("A JVM TI agent has been loaded dynamically") == 1


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_a_jvm_that_checks_jni_has_nothing_to_complain_of(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """The warnings of -Xcheck:jni go to the program's own output."""
    with waiting_jvm(jre(version), waiting_classes, "-Xcheck:jni") as jvm:
        for _ in range(2):
            control.start(jvm.pid, "interval=4096").live_file.unlink()
            assert control.detach(jvm.pid).state == "stopped"
        assert jvm.process.stdin
        assert jvm.process.stdout
        jvm.process.stdin.write(b"\n")
        jvm.process.stdin.flush()
        assert read_line(jvm.process, 20.0) == b"alive\n"


def test_codes_are_those_of_the_probe() -> None:
    header = (ROOT / "probe" / "errors.h").read_text()
    codes = {int(code) for code in re.findall(r"PROBE_\w+ = (\d+),", header)}
    assert codes == set(control._RESULTS) | {control.OK, control._OK_AGAIN}
    with pytest.raises(UserError, match="result 7"):
        raise control.result_error(1, 7)
    assert issubclass(TargetGone, UserError)
    assert status.read(os.getpid()).alive
