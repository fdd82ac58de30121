"""The 95 % intervals against the truth through the real probe: 100 seeded runs of a program that knows it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from native import PROBE, compile_c
from offheap import recording
from offheap.analysis.results import Estimate
from offheap.analysis.sites import sites

RUNS = 100


@pytest.fixture(scope="module")
def known_leak(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known_leak")
    return compile_c([PROBE / "tests" / "known_leak.c"], folder / "known_leak", flags=["-fno-builtin"])


def estimates_of(
    program: Path, library: Path, folder: Path, blocks: int, seed: int
) -> tuple[Estimate, Estimate, int, int]:
    """Estimated live bytes and blocks of the leaking site, and the true ones."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "OFFHEAP": f"interval=512k,seed={seed},dir={folder}",
    }
    outcome = subprocess.run(
        [program, str(blocks)], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    truth = re.fullmatch(r"blocks (\d+) bytes (\d+)\n", outcome.stdout)
    assert truth
    (live_file,) = folder.glob("*.live")
    found = recording.load(live_file)
    live_file.unlink()
    leaking = [site for site in sites(found) if any(frame.name == "leaking_site" for frame in site.stack)]
    assert len(leaking) == 1
    return leaking[0].live_bytes, leaking[0].live_blocks, int(truth[2]), int(truth[1])


@pytest.mark.parametrize("blocks", [600, 6000])
def test_the_interval_covers_the_truth_as_often_as_it_says(
    blocks: int, known_leak: Path, probe_library: Path, tmp_path: Path
) -> None:
    in_bytes = in_blocks = 0
    for seed in range(1, RUNS + 1):
        live_bytes, live_blocks, true_bytes, true_blocks = estimates_of(
            known_leak, probe_library, tmp_path, blocks, seed
        )
        in_bytes += live_bytes.low <= true_bytes <= live_bytes.high
        in_blocks += live_blocks.low <= true_blocks <= live_blocks.high
    print(f"{blocks} blocks: bytes covered in {in_bytes}, blocks in {in_blocks} of {RUNS} runs")
    assert 90 <= in_bytes <= 99
    assert 90 <= in_blocks <= 99
