"""The reason for missing names: a stripped program under the probe, its live file and its recording."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.native.compiler import compile_c
from harness.paths import IMAGES
from harness.recordings.live_file_writer import LiveFileWriter
from offheap.probe.live_files import search
from offheap.probe.live_files.live_file import LiveFile
from offheap.recording import load
from offheap.recording.capture.recorder import record
from offheap.recording.names.naming import Naming
from offheap.symbols import Symbolizer

SOURCE = IMAGES / "nameless.c"


def test_a_stripped_program_is_named_in_the_coverage(tmp_path: Path, probe_library: Path) -> None:
    program = compile_c([SOURCE], tmp_path / "nameless", flags=["-s"])
    environment = {**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={tmp_path}"}
    with subprocess.Popen(
        [program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        (file,) = search.inside(tmp_path)
        recording = load(file.path)
        record(file.path, tmp_path / "a.offheap", duration=0)
        process.stdin.close()
        assert process.wait(10) == 0
    stored = load(tmp_path / "a.offheap")
    for which in (recording, stored):
        # libc is in the same sentence if its debug symbols are not installed.
        sentences = [sentence.partition(": ") for sentence in which.info.coverage]
        said = [what for modules, _, what in sentences if "nameless" in modules.split(", ")]
        assert said == ["stripped: only exported functions have names, install its debug symbols"]
        assert any(frame.name.startswith("nameless+0x") for frame in which.frames)


def test_modules_that_lack_the_same_share_a_sentence(tmp_path: Path) -> None:
    symbolizer = Symbolizer()
    with LiveFile(LiveFileWriter().write(tmp_path / "a.live")) as live_file:
        naming = Naming(live_file, symbolizer)
        assert naming.problems() == ()
        for folder in ("/gone", "/gone/too"):
            for number in range(8):
                symbolizer.resolve(f"{folder}/lib{number}.so", "", [1])
        symbolizer.resolve("/gone/lib9.so (deleted)", "", [1])
        (sentence,) = naming.problems()
    assert sentence == "lib0.so, lib1.so, lib2.so, lib3.so, lib4.so, lib5.so and 3 more: the file is gone"
