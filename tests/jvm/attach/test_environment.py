"""The environment that starts the probe in the next program, and what `offheap env` prints of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command_line import quiet_environment, run_offheap
from offheap import recording
from offheap.errors import UserError
from offheap.probe import library, options

pytestmark = pytest.mark.usefixtures("probe_library")


def test_the_environment_starts_the_probe(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    java = f"{jre(21)} -Xmx64m -cp {waiting_classes} Waiting </dev/null"
    script = tmp_path / "start.sh"
    script.write_text(f"ls /\n{java}\n")
    shell = f'eval "$({sys.executable} -m offheap env --interval 4k --dir {tmp_path})"\nsh {script}\n'
    subprocess.run(["sh", "-c", shell], check=True, capture_output=True, timeout=60, env=quiet_environment())
    found = [recording.load(path) for path in sorted(tmp_path.glob("*.live"))]
    # The script's own shell is recorded because it is the next program; `ls` is not recorded.
    (jvm,) = [each for each in found if each.info.java_version]
    assert jvm.info.java_version.startswith("21.")
    assert jvm.info.entry == "preload"
    assert jvm.info.interval_bytes == 4096
    assert len(found) == 2


def test_a_native_program_needs_no_jvm(tmp_path: Path) -> None:
    shell = (
        f'eval "$({sys.executable} -m offheap env --native --exact --dir {tmp_path})"\n'
        f"exec {sys.executable} -S -c pass\n"
    )
    subprocess.run(["sh", "-c", shell], check=True, capture_output=True, timeout=60, env=quiet_environment())
    (path,) = tmp_path.glob("*.live")
    found = recording.load(path)
    assert found.info.mode == "exact"
    assert found.info.java_version == ""
    assert found.process["allocated_bytes"][-1] > 0


def test_what_env_prints(tmp_path: Path) -> None:
    built = str(library.probe_library())
    found = json.loads(run_offheap("env", "--json", "--exact", "--follow").stdout)
    assert found == {"schema": "offheap.env/1", "variables": {"LD_PRELOAD": built, "OFFHEAP": "exact,follow"}}
    assert (
        options.preload(Path("/a/liboffheap.so"), "/b.so /c.so:/a/liboffheap.so")
        == "/a/liboffheap.so:/b.so:/c.so"
    )
    with pytest.raises(UserError, match="space"):
        options.preload(Path("/a b/liboffheap.so"), "")
    with pytest.raises(UserError, match="comma"):
        options.environment_text("interval=1", directory=Path("/a,b"), follow=False)
    assert "--exact" in run_offheap("env", "--interval", "0", expect=2).stderr
