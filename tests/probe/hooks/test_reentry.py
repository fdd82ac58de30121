"""Allocations inside the probe: a signal handler's are lost and counted, the probe's own are neither."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from offheap import recording
from offheap.recording.model import Recording

# The thread never allocates, and is often in the probe, which walks a different stack for each mapping.
HANDLER = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
static volatile long handled;
static void *volatile kept;
static void handle(int number) { (void)number; kept = malloc(777); handled++; }
static int map(int depth) {
    if (depth) return map(depth - 1) + 1;
    return munmap(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
}
int main(void) {
    static char out[4096];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    signal(SIGALRM, handle);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; handled < 3000; i++) map(i * 7 % 200);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%ld\n", handled);
    return 0;
}
"""
LOADERS = """
public class Loaders {
    public static class Small { static int one() { return 1; } int two() { return 2; } }
    public static void main(String[] words) throws Exception {
        byte[] code;
        try (var in = Loaders.class.getResourceAsStream("Loaders$Small.class")) { code = in.readAllBytes(); }
        for (int i = 0; i < 300; i++)
            new ClassLoader(null) {
                void load() throws Exception {
                    Class.forName(defineClass(null, code, 0, code.length).getName(), true, this);
                }
            }.load();
    }
}
"""


def recorded_exactly(command: Sequence[str | Path], library: Path, folder: Path) -> tuple[Recording, str]:
    """The recording, and the program's output."""
    outcome = subprocess.run(
        command,
        env={**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": f"exact,dir={folder}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode == 0, outcome.stderr
    (file,) = folder.glob("*.live")
    return recording.load(file), outcome.stdout


def test_what_a_signal_handler_allocates(probe_library: Path, tmp_path: Path) -> None:
    (tmp_path / "handler.c").write_text(HANDLER)
    program = compile_c([tmp_path / "handler.c"], tmp_path / "handler")
    found, printed = recorded_exactly([program], probe_library, tmp_path)
    lost = found.info.lost.get("lost_reentries", 0)
    assert lost > 0
    assert int((found.live["size"] == 777).sum()) + lost == int(printed)


@pytest.mark.parametrize("version", [11, 25])
def test_ids_of_methods_are_not_the_jvms_leak(
    version: int, jre: Callable[[int], Path], jdk: Path, probe_library: Path, tmp_path: Path
) -> None:
    """HotSpot never frees the data that a JVMTI query for a class loader's methods leaves."""
    (tmp_path / "Loaders.java").write_text(LOADERS)
    subprocess.run(
        [jdk / "bin" / "javac", "--release", "11", "-d", tmp_path, tmp_path / "Loaders.java"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    command: list[str | Path] = [jre(version), "-Xmx64m", "-cp", tmp_path, "Loaders"]
    found, _ = recorded_exactly(command, probe_library, tmp_path)
    stacks = [[frame.name for frame in found.stack(n)] for n in range(len(found.stack_kinds))]
    assert any("Loaders.main" in stack for stack in stacks)
    assert not [stack for stack in stacks if any("GetClassMethods" in name for name in stack)]
    assert found.info.lost.get("lost_reentries", 0) == 0
