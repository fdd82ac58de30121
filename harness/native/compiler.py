"""Compiles the C programs of the tests: with the machine's cc where a sanitizer needs it, else with zig."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness import needs
from harness.paths import PROBE
from offheap.probe import checkout

# Each is compiled with -fsanitize=<it>; "" is an ordinary optimised build.
SANITIZERS = ("", "address,undefined", "thread")


def compile_c(
    sources: Sequence[Path],
    output: Path,
    *,
    sanitizer: str = "",
    flags: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> Path:
    """Builds one program or, with -shared among the flags, one library; the compiler finds headers of probe/.

    A sanitizer's run-time library comes with the machine's compiler (zig ships none but TSan's): without
    one the test is skipped.
    """
    arguments = [
        *("-std=c17", "-O2" if not sanitizer else "-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Wextra"),
        f"-I{PROBE}",
        *map(str, sources),
        *flags,
        *(f"-l{name}" for name in libraries),
        *("-o", str(output)),
    ]
    if not sanitizer:
        checkout.build_script().compile_native([*arguments, "-fno-sanitize=undefined"])
        return output
    compiler = needs.program("cc", f"with its run-time library for -fsanitize={sanitizer}")
    command = [compiler, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if outcome.returncode != 0 and "cannot find" in outcome.stderr:
        needs.skip(f"the run-time library of {compiler} for -fsanitize={sanitizer}", needs.apt("gcc"))
    assert outcome.returncode == 0, outcome.stderr
    return output
