"""The 95 % intervals of the real probe against the truth: 100 seeded runs of a program that knows it."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from harness.paths import PROBE
from harness.plugins.rotation import with_slow
from offheap import recording
from offheap.analysis.sites.results import Site
from offheap.analysis.sites.sites import sites
from offheap.analysis.statistics.estimate import Estimate

RUNS = 100


@pytest.fixture(scope="module")
def known_leak(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known_leak")
    return compile_c([PROBE / "tests" / "known_leak.c"], folder / "known_leak", flags=["-fno-builtin"])


def site_of(program: Path, library: Path, folder: Path, blocks: int, seed: int) -> tuple[Site, int, int, int]:
    """The leaking site, the number of its sampled allocators, the true blocks of each, its true bytes."""
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
    sampled = found.series["stack"][found.series["samples"] > 0]
    known = {found.stack(stack)[0].name for stack in set(leaking[0].stacks) & set(sampled.tolist())}
    return leaking[0], len(known), int(truth[1]), int(truth[2])


@pytest.mark.parametrize("blocks", with_slow([8000], [800]))
def test_the_interval_covers_the_truth_as_often_as_it_says(
    blocks: int, known_leak: Path, probe_library: Path, tmp_path: Path
) -> None:
    """Blocks of 64 bytes to 300,000 in one site: the bytes, and the blocks of all sampled paths."""
    in_bytes = in_blocks = 0
    by_path: Counter[str] = Counter()
    for seed in range(1, RUNS + 1):
        site, known, true_blocks, true_bytes = site_of(known_leak, probe_library, tmp_path, blocks, seed)
        in_bytes += covers(site.live_bytes, true_bytes)
        in_blocks += covers(site.live_blocks, true_blocks * known)
        for path in site.paths:
            by_path[path.inner[0].name] += covers(path.live_blocks, true_blocks)
    print(f"{blocks} blocks: bytes covered in {in_bytes}, blocks in {in_blocks} of {RUNS} runs; {by_path}")
    assert 90 <= in_bytes <= 99
    assert 90 <= in_blocks <= 99
    for allocator in ("realloc", "aligned_alloc", *(["calloc"] if blocks > 1000 else [])):
        assert 90 <= by_path[allocator] <= 99, "every path that is sampled is counted as well"


def covers(interval: Estimate, truth: int) -> bool:
    return interval.low <= truth <= interval.high
