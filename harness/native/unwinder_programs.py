"""The unwinder and the programs that use it, compiled."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.native.compiler import compile_c
from harness.paths import PROBE

PROGRAMS = PROBE / "tests"
UNWINDER = [
    *(
        PROBE / f"{name}.c"
        for name in (
            "unwind/cfi",
            "unwind/cfi_step",
            "unwind/stack_bounds",
            "platform/found_image",
            "platform/mappings",
            "store/modules",
            "platform/system",
            "unwind/unwind",
        )
    ),
    PROGRAMS / "unwind_live.c",
    PROGRAMS / "unwind_capture.c",
]
LIBRARY_FLAGS = ["-shared", "-fPIC", "-fno-plt", "-fvisibility=hidden", "-fasynchronous-unwind-tables"]
# The flags of production code: no frame pointers to fall back on, and PLT stubs that bind lazily.
PROGRAM_FLAGS = ["-fomit-frame-pointer", "-Wl,-z,lazy", "-Wl,-rpath,$ORIGIN"]


@dataclass(frozen=True)
class Programs:
    folder: Path

    def run(self, program: str, *arguments: str, before: Callable[[], None] | None = None) -> str:
        command = [str(self.folder / program), *arguments]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=before)
        assert outcome.returncode == 0, (outcome.returncode, outcome.stdout, outcome.stderr)
        return outcome.stdout


def build(folder: Path, more_sources: Sequence[Path] = (), unwinder: Sequence[Path] = UNWINDER) -> Programs:
    library = compile_c(
        [*unwinder, *more_sources],
        folder / "libcapture.so",
        flags=[*LIBRARY_FLAGS, "-Wl,-soname,libcapture.so"],
    )
    for name in ("cases", "torn"):
        compile_c(
            [PROGRAMS / f"unwind_{name}.c", library],
            folder / name,
            flags=PROGRAM_FLAGS,
            libraries=["dl", "pthread"],
        )
    compile_c([PROGRAMS / "unwind_plugin.c"], folder / "unwind_plugin.so", flags=["-shared", "-fPIC"])
    return Programs(folder)
