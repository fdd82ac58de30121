"""A recording of programs/heaps/two_keepers.c, in which every block is known, and what it is exported to."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.command_line import offheap
from harness.native.compiler import compile_c
from harness.paths import HEAPS
from harness.recordings.imported_profiles import check, last
from offheap.formats.exported.content.samples import samples
from offheap.formats.exported.formats import FORMATS
from offheap.formats.imported.profile import Profile
from offheap.recording.model import Recording

A, B, CHURN, EMPTY, TINY = "keeper_a", "keeper_b", "churn", "keep_empty", "keep_tiny"
# Live bytes and blocks, allocated bytes and blocks of each function of two_keepers.c.
TRUTH = {
    A: (100_000, 100, 100_000, 100),
    B: (20_000, 40, 20_000, 40),
    CHURN: (0, 0, 19_200, 300),
    EMPTY: (0, 7, 0, 7),
    TINY: (50, 50, 50, 50),
}
THREADS = {"keeper-a": 100_000, "keeper-b": 20_000}
Stack = tuple[str, ...]


def record(folder: Path) -> Path:
    """Every block.  The probe is built before."""
    program = compile_c(
        [HEAPS / "two_keepers.c"],
        folder / "two_keepers",
        flags=["-Wl,--build-id"],
        libraries=["pthread"],
    )
    command = offheap("run", "--exact", "-o", folder / "two.offheap", "--", program)
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder / "two.offheap"


def export(recording: Recording, folder: Path) -> dict[str, Path]:
    """Files in every format, by its name."""
    paths = {name: folder / f"two{known.suffix}" for name, known in FORMATS.items()}
    for name, path in paths.items():
        path.write_bytes(FORMATS[name].write(recording, "both", "inuse_space"))
    return paths


def ran(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def of_function(stacks: Iterator[tuple[Stack, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    found = {name: [0] * 4 for name in TRUTH}
    for names, values in stacks:
        for name in set(names) & set(found):
            found[name] = [a + b for a, b in zip(found[name], values, strict=True)]
    return {name: tuple(values) for name, values in found.items()}


def live(recording: Recording) -> Counter[Stack]:
    """Live bytes by names, outermost first."""
    of, found = samples(recording), Counter[Stack]()
    for place, number in enumerate(of.values["inuse_space"].tolist()):
        found[tuple(frame.name for frame in reversed(of.frames(place)))] += number
    return +found


def live_of(profile: Profile) -> Counter[Stack]:
    found, ends = Counter[Stack](), last(check(profile))
    for number, places in enumerate(profile.stacks, 1):
        names = tuple(profile.frames[place].name for place in reversed(places))
        found[names] += round(ends.get(number, (0.0, 0.0))[1])
    return +found
