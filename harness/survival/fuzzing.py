"""Damaged input for the parsers: by chance with ever new seeds, and by libFuzzer, led by what it reaches."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness import needs
from harness.native.compiler import compile_c
from harness.paths import PROBE, ROOT
from offheap.proc.images.elf import ElfError, ElfImage

HARNESSES = {"unwind_fuzz": ("unwind/cfi.c", "unwind/cfi_step.c"), "parser_fuzz": ()}
ROUNDS = "300000"
QUESTION = struct.Struct("<iHBBB3x")  # struct question of probe/tests/unwind_libfuzzer.c
LARGEST_SEED = 16384
CRASHES = ROOT / "build" / "fuzz"


def by_chance(folder: Path, seconds: float) -> bool:
    """Whether something was found."""
    runs = 0
    programs = []
    try:
        for name, sources in HARNESSES.items():
            files = [PROBE / "tests" / f"{name}.c", *(PROBE / source for source in sources)]
            programs.append(compile_c(files, folder / name, sanitizer="address,undefined"))
    except needs.Skipped as reason:
        print(f"by chance: not run, {reason}")
        return False
    deadline = time.monotonic() + seconds  # the time of the build is not counted
    while time.monotonic() < deadline:
        for program in programs:
            seed = str(random.randrange(1 << 40))
            outcome = subprocess.run([program, ROUNDS, seed], capture_output=True, text=True)
            runs += 1
            if outcome.returncode:
                print(outcome.stdout + outcome.stderr)
                print(f"found by {program.name} {ROUNDS} {seed} after {runs} runs")
                return True
    print(f"by chance: nothing found in {runs} runs of {ROUNDS} rounds")
    return False


def unwinder(folder: Path, seconds: float) -> bool | None:
    """Whether something was found; None: libFuzzer did not run."""
    clang = shutil.which("clang")
    if clang is None:
        print("libFuzzer on the unwinder: not run, clang is missing (Debian's clang, libclang-rt-dev)")
        return None
    program, corpus = folder / "unwind_libfuzzer", folder / "rules"
    sources = [PROBE / "tests" / "unwind_libfuzzer.c", PROBE / "unwind/cfi.c", PROBE / "unwind/cfi_step.c"]
    flags = ["-std=c17", "-O1", "-g", "-fsanitize=fuzzer,address,undefined"]
    flags += ["-fno-sanitize-recover=all", f"-I{PROBE}"]
    built = subprocess.run([clang, *flags, *map(str, sources), "-o", str(program)])
    if built.returncode:
        print("libFuzzer on the unwinder: clang cannot build it (is Debian's libclang-rt-dev there?)")
        return None
    corpus.mkdir()
    seeds(corpus)
    return libfuzzer("the unwinder", [str(program), str(corpus)], seconds, f"-max_len={LARGEST_SEED}")


def reader(folder: Path, seconds: float) -> bool | None:
    if importlib.util.find_spec("atheris") is None:
        print("libFuzzer on the reader: not run, atheris is missing (pip install atheris)")
        return None
    corpus = folder / "changes"
    corpus.mkdir()
    script = Path(__file__).with_name("fuzz_reader.py")
    return libfuzzer("the reader", [sys.executable, str(script), str(corpus)], seconds, "-max_len=256")


def libfuzzer(what: str, command: Sequence[str], seconds: float, *options: str) -> bool:
    CRASHES.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={max(round(seconds), 1)}", "-timeout=20", "-print_final_stats=1", *options]
    outcome = subprocess.run(
        [*command, *limits],
        cwd=CRASHES,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if outcome.returncode:
        print(outcome.stderr[-5000:])
        print(f"found by libFuzzer in {what}; the input is in {CRASHES}")
        return True
    lines = outcome.stderr.splitlines()
    reached = [line for line in lines if " cov: " in line][-1].split(" cov: ")[1].split()[0]
    (count,) = (line.split()[-1] for line in lines if line.startswith("stat::number_of_executed_units"))
    print(f"libFuzzer on {what}: nothing found in {int(count):,} inputs that reached {reached} edges")
    return False


def seeds(corpus: Path) -> None:
    """Questions to the sections of the machine's smaller libraries, eight to each."""
    for number, path in enumerate(sorted(Path("/usr/lib").glob("*-linux-gnu/*.so*"))):
        try:
            with ElfImage.open(path) as image:
                header, frames = image.section(".eh_frame_hdr"), image.section(".eh_frame")
                if not header or not frames or header.address + header.size > frames.address:
                    continue
                gap = frames.address - header.address - header.size
                rules = image.data(header) + bytes(gap) + image.data(frames)
        except (ElfError, OSError):
            continue
        (count,) = struct.unpack_from("<I", rules, 8)
        if len(rules) > LARGEST_SEED - QUESTION.size or header.size < 12 + 8 * count:
            continue
        for entry in range(0, count, max(count // 8, 1)):
            (code,) = struct.unpack_from("<i", rules, 12 + 8 * entry)
            question = QUESTION.pack(code + 4, 0, 8, 64, 2)
            (corpus / f"{number}-{entry}").write_bytes(question + rules)
