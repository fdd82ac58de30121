"""A JVM without AsyncGetCallTrace, like another vendor's: a HotSpot whose symbol is renamed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.jvms import zoo as zoo_programs
from offheap import recording

ENTRY = b"\0AsyncGetCallTrace\0"


@pytest.fixture(scope="module")
def java_without_the_entry(jre: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JRE 17 without a symbol of that name: the new name has the same length, so that no table moves."""
    home = jre(17).parent.parent
    copy = tmp_path_factory.mktemp("other-jvm") / "jre"
    shutil.copytree(home, copy, symlinks=True)
    library = copy / "lib" / "server" / "libjvm.so"
    image = library.read_bytes()
    assert ENTRY in image
    library.write_bytes(image.replace(ENTRY, b"\0OtherVendorsOnly_\0"))
    return copy / "bin" / "java"


def test_native_frames_are_recorded_and_the_gap_is_said(
    java_without_the_entry: Path, zoo: zoo_programs.Zoo, probe_library: Path, tmp_path: Path
) -> None:
    program = zoo_programs.programs()["inflaters"]
    command = zoo.command(program, java_without_the_entry, rate=500, seconds=3)
    environment = {**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"interval=64k,dir={tmp_path}"}
    subprocess.run(command, env=environment, check=True, timeout=120, stdout=subprocess.DEVNULL)
    (live_file,) = tmp_path.glob("*.live")
    found = recording.load(live_file)
    names = {frame.name for frame in found.frames}
    assert {"inflateInit2_", "Java_java_util_zip_Inflater_init"} <= names
    assert not any(frame.kind == "java" for frame in found.frames)
    assert any("AsyncGetCallTrace" in sentence for sentence in found.info.coverage), found.info.coverage
