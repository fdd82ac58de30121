"""Recordings of probe/tests/changing_load.c, whose load changes tenfold: the estimates and the truth."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.native.compiler import compile_c
from harness.paths import PROBE
from offheap import recording
from offheap.analysis.sites.sites import sites
from offheap.analysis.statistics.estimate import Estimate
from offheap.recording.model import Info


@dataclass(frozen=True)
class Outcome:
    info: Info
    live_bytes: Estimate
    live_blocks: Estimate
    allocated_bytes: float
    allocated_variance: float
    live_variance: float
    blocks_variance: float
    true_blocks: int
    true_bytes: int


@dataclass(frozen=True)
class Error:
    """The errors of many runs, summed: a part of the truth, and in standard deviations of the sum."""

    part: float
    z: float


@dataclass(frozen=True)
class Pooled:
    """How many 95 % intervals cover the truth, and the error of all runs together."""

    runs: int
    bytes_covered: int
    blocks_covered: int
    live_bytes: Error
    live_blocks: Error
    allocated_bytes: Error


def compile_load(folder: Path) -> Path:
    """Path of the program."""
    source = PROBE / "tests" / "changing_load.c"
    return compile_c([source], folder / "changing_load", flags=["-fno-builtin"], libraries=["pthread"])


def outcome_of(program: Path, library: Path, folder: Path, options: str, phases: int) -> Outcome:
    folder.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": f"{options},dir={folder}"}
    done = subprocess.run(
        [program, str(phases)], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    truth = re.fullmatch(r"blocks (\d+) bytes (\d+)\n", done.stdout)
    assert truth, done
    (live_file,) = folder.glob("*.live")
    found = recording.load(live_file)
    live_file.unlink()
    leaking = [site for site in sites(found) if any(frame.name == "leaking_site" for frame in site.stack)]
    assert len(leaking) == 1
    series = found.series[found.series["allocated_bytes"] > 1 << 20]
    return Outcome(
        found.info,
        leaking[0].live_bytes,
        leaking[0].live_blocks,
        float(series["allocated_bytes"].sum()),
        float(series["allocated_bytes_variance"].sum()),
        float(series["live_bytes_variance"].sum()),
        float(series["live_blocks_variance"].sum()),
        int(truth[1]),
        int(truth[2]),
    )


def greatest_interval(outcome: Outcome) -> int:
    """Bytes; 0 without a budget."""
    return outcome.info.budget.greatest_interval_bytes if outcome.info.budget else 0


def pooled(outcomes: Sequence[Outcome]) -> Pooled:
    def error(estimated: float, true: float, variance: float) -> Error:
        return Error((estimated - true) / true, (estimated - true) / math.sqrt(variance))

    true_bytes = sum(o.true_bytes for o in outcomes)
    live_variance = sum(o.live_variance for o in outcomes)
    return Pooled(
        len(outcomes),
        sum(o.live_bytes.low <= o.true_bytes <= o.live_bytes.high for o in outcomes),
        sum(o.live_blocks.low <= o.true_blocks <= o.live_blocks.high for o in outcomes),
        error(sum(o.live_bytes.estimate for o in outcomes), true_bytes, live_variance),
        error(
            sum(o.live_blocks.estimate for o in outcomes),
            sum(o.true_blocks for o in outcomes),
            sum(o.blocks_variance for o in outcomes),
        ),
        # Eleven of every twelve blocks are freed.
        error(
            sum(o.allocated_bytes for o in outcomes),
            12 * true_bytes,
            sum(o.allocated_variance for o in outcomes),
        ),
    )
