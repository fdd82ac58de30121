"""A program whose library allocates, recorded while the library is there and named when it is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.native.compiler import compile_c
from offheap import recording
from offheap.recording.capture.recorder import record

LIBRARY = """
#include <stdlib.h>
static __attribute__((noinline)) void *inner(int size) {
    char *block = malloc(size);
    block[0] = 1;
    return block;
}
void *acme_make(int size) {
    void *block = inner(size);
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}
"""
PROGRAM = """
void *acme_make(int size);
int main(void) {
    for (int i = 0; i < 1000; i++) acme_make(500 + i % 10);
    return 0;
}
"""
FLAGS = ["-fno-builtin", "-O1", "-Wl,--build-id=sha1"]


@dataclass(frozen=True)
class Recorded:
    """`recording` has no names of `library`, which was at `place`.

    unnamed  frames without a name: two of the library, and those of a stripped libc
    """

    recording: Path
    library: Path
    place: Path
    unnamed: int


def build_library(folder: Path, *flags: str) -> Path:
    source = folder / "acme.c"
    source.write_text(LIBRARY)
    return compile_c([source], folder / "libacme.so", flags=[*FLAGS, "-shared", "-fPIC", *flags])


def record_without_symbols(folder: Path, probe: Path) -> Recorded:
    """In a folder that is empty."""
    here = folder / "program"
    here.mkdir()
    library = build_library(here)
    (here / "main.c").write_text(PROGRAM)
    program = compile_c([here / "main.c", library], here / "acme", flags=[*FLAGS, f"-Wl,-rpath,{here}"])
    environment = {**os.environ, "LD_PRELOAD": str(probe), "OFFHEAP": f"exact,dir={folder}"}
    subprocess.run([program], env=environment, check=True, timeout=60)
    away = folder / "away"
    away.mkdir()
    shutil.move(library, away / "any-name")
    (live_file,) = folder.glob("*.live")
    record(live_file, folder / "app.offheap")
    unnamed = sum("+0x" in frame.name for frame in recording.load(folder / "app.offheap").frames)
    return Recorded(folder / "app.offheap", away / "any-name", library, unnamed)
