"""The CPU budget: the mean interval moves, and the estimates stay right."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from harness.native.changing_load import Outcome, compile_load, greatest_interval, outcome_of, pooled
from harness.native.compiler import compile_c
from harness.paths import BENCHMARKS, PROBE
from harness.recordings.live_file_writer import LiveFileWriter, hook, native
from harness.simulation import Churn, Leak, Process, WarmUp, inflater
from offheap import recording
from offheap.analysis.leaks.leaks import suspects
from offheap.analysis.statistics.estimates import Floats
from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.live_files.live_file import LiveFile
from offheap.recording.model import Budget
from offheap.report.json import schemas as report_json


@pytest.fixture(scope="module")
def changing_load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_load(tmp_path_factory.mktemp("changing_load"))


@pytest.mark.parametrize(("runs", "least_covered"), [(30, 24), pytest.param(100, 87, marks=pytest.mark.slow)])
def test_estimates_stay_unbiased_while_the_interval_moves(
    runs: int, least_covered: int, changing_load: Path, probe_library: Path, tmp_path: Path
) -> None:
    """Two threads whose load changes tenfold; the probe's clock readings make every run different.

    0.2 % is the budget here: the default grants so short a load nearly all that it takes at 256 KiB.

    A thread adds its number to the seed: runs with neighbouring seeds would share random streams.
    """

    def once(seed: int) -> Outcome:
        options = f"interval=256k,budget=0.2%,seed={1000 * seed}"
        return outcome_of(changing_load, probe_library, tmp_path / str(seed), options, 6)

    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(once, range(1, runs + 1)))
    moved = sum(greatest > 1 << 20 for greatest in map(greatest_interval, outcomes))
    assert moved > runs * 0.9

    errors = pooled(outcomes)
    print(errors)
    # The samples of each run depend on the clock.  With a true coverage of 95 % these bounds fail less than
    # once in a thousand runs; a bias shows in the pooled errors long before.
    assert errors.bytes_covered >= least_covered
    assert abs(errors.live_bytes.z) < 4
    assert abs(errors.live_blocks.z) < 4
    assert abs(errors.allocated_bytes.z) < 4


@pytest.mark.parametrize(
    "text",
    [
        *("budget=", "budget=1", "budget=0%", "budget=101%", "budget=1%%", "budget=x%", "budget"),
        *("interval=x", "interval=1048577g", "interval=17179869184g"),
    ],
)
def test_a_bad_budget_or_interval_records_nothing_and_says_so(
    text: str, probe_library: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"{text},dir={tmp_path}"}
    done = subprocess.run(["/bin/true"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "OFFHEAP variable is not understood" in done.stderr
    assert not list(tmp_path.iterdir())


def budgeted(**header: int | float) -> LiveFileWriter:
    """A recording of 100 s: 60 s every 512 KiB, 30 s every 8 MiB, then 10 s without a reading."""
    start = time.monotonic_ns() - 100 * 10**9
    fields: dict[str, int | float] = {
        "budget_ppm": 10_000,
        "cpu_ns": 50 * 10**9,
        "spent_ns": 4 * 10**8,
        "adjusted_ns": start + 90 * 10**9,
        "inverse_seconds": 60 / (512 << 10) + 30 / (8 << 20),
        "interval_code": 33,
        "least_code": 1,
        "greatest_code": 49,
        "stop_monotonic_ns": start + 100 * 10**9,
    }
    intervals = {code: round((512 << 10) * 2 ** ((code - 1) / 8)) for code in range(2, 58)}
    return LiveFileWriter(start_monotonic_ns=start, intervals=intervals, header={**fields, **header})


def test_a_recording_says_its_budget(tmp_path: Path) -> None:
    writer = budgeted()
    frame = native(writer.module("/lib/libthing.so"), 0x1000)
    stack = writer.stack(hook("malloc"), frame)
    codes = (1, 33, 49)
    writer.blocks([0x10000, 0x20000, 0x30000], [1 << 20] * 3, [stack] * 3, [0, 1, 2], [0] * 3)
    writer.values["block"] &= ~np.uint64(0xFF << contract.VALUE_INTERVAL_SHIFT)
    writer.values["block"] |= np.array(codes, "u8") << np.uint64(contract.VALUE_INTERVAL_SHIFT)
    found = recording.load(writer.write(tmp_path / "offheap-1-0.live"))
    assert found.info.budget == Budget(0.01, 50.0, 0.4, 512 << 10, 32 << 20, 8 << 20)
    assert found.info.budget.spent_share == 0.008
    # This interval gives a path with even allocation the same chance to escape.
    assert found.info.interval_bytes == round(100 / (60 / (512 << 10) + 40 / (8 << 20)))
    assert np.allclose(found.live["probability"], [-math.expm1(-x) for x in (2, 1 / 8, 1 / 32)])
    told = report_json.recording(found.info)
    assert told["budget"] == {
        "cpu_share": 0.01,
        "spent_share": 0.008,
        "cpu_seconds": 50.0,
        "spent_seconds": 0.4,
        "interval_bytes": {"least": 512 << 10, "greatest": 32 << 20, "last": 8 << 20},
    }


@pytest.mark.parametrize(
    "header",
    [
        {"interval_code": 0},
        {"least_code": 0},
        {"interval_code": 200},
        {"greatest_code": 2**32 - 1},
        {"inverse_seconds": math.nan},
        {"inverse_seconds": -1.0},
        {"budget_ppm": 10**7},
    ],
)
def test_a_damaged_budget_is_refused(header: dict[str, int | float], tmp_path: Path) -> None:
    path = budgeted(**header).write(tmp_path / "offheap-1-0.live")
    with pytest.raises(UserError, match="damaged"):
        recording.load(path)


def test_a_budget_alone_samples_finer_where_that_costs_little(
    changing_load: Path, probe_library: Path, tmp_path: Path
) -> None:
    outcome = outcome_of(changing_load, probe_library, tmp_path / "fine", "budget=90%,seed=1", 8)
    budget = outcome.info.budget
    assert budget
    assert budget.least_interval_bytes == 32 << 10
    assert 512 << 10 <= budget.greatest_interval_bytes < 513 << 10, "where it starts"
    assert 32 << 10 <= outcome.info.interval_bytes < 512 << 10


@pytest.mark.parametrize(
    ("options", "share", "least"),
    [
        ("seed=1", 0.01, 32 << 10),
        ("budget=2%,seed=1", 0.02, 32 << 10),
        ("budget=2%,interval=256k,seed=1", 0.02, 256 << 10),
        ("interval=512k,seed=1", None, None),
        ("exact", None, None),
    ],
)
def test_one_percent_is_the_default(
    options: str,
    share: float | None,
    least: int | None,
    changing_load: Path,
    probe_library: Path,
    tmp_path: Path,
) -> None:
    budget = outcome_of(changing_load, probe_library, tmp_path / "live", options, 4).info.budget
    assert (budget.share if budget else None) == share
    assert budget is None or (least and budget.least_interval_bytes >= least)


def test_stacks_that_are_new_do_not_make_samples_rarer(probe_library: Path, tmp_path: Path) -> None:
    """512 new stacks in three seconds, each some 20 us: three times the grant of an idle process."""
    program = compile_c([PROBE / "tests" / "new_stacks.c"], tmp_path / "new_stacks", flags=["-fno-builtin"])
    environment = {**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"dir={tmp_path}"}
    subprocess.run([program, "9", "6000"], env=environment, check=True, timeout=60)
    (live_file,) = tmp_path.glob("*.live")
    found = recording.load(live_file)
    assert len(found.stack_offsets) > 400
    assert found.info.budget
    assert found.info.budget.spent_share > 0.02
    assert found.info.budget.greatest_interval_bytes < 1 << 20


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_what_is_spent_stays_under_the_budget(share: float, probe_library: Path, tmp_path: Path) -> None:
    """Two threads malloc 16 B to 1 MiB and free for six seconds; the clock is the real one.

    A preempted sample makes the interval rise, and it falls again in the course of a second or two.
    """
    source = BENCHMARKS / "cost" / "malloc_pair.c"
    program = compile_c([source], tmp_path / "malloc_pair", libraries=["pthread"])
    options = f"budget={share:.0%},seed=1,dir={tmp_path}"
    environment = {**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": options}
    subprocess.run([program, "mixed", "2", "1000", "5", "6000"], env=environment, check=True, timeout=120)
    (live_file,) = tmp_path.glob("*.live")
    budget = recording.load(live_file).info.budget
    assert budget
    assert budget.cpu_seconds > 5
    due = share * budget.cpu_seconds
    # 50 ms are granted beside the share (docs/budget.md), and the first adjustment follows the first samples.
    assert due / 2 < budget.spent_seconds < 1.1 * due + 0.05


@pytest.mark.slow  # the tolerance of a fifth, by the real clock, needs an idle machine
def test_once_started_the_share_itself_is_kept(probe_library: Path, tmp_path: Path) -> None:
    """By the real clock, after the 50 ms that are granted at the start and would hide an excess of half.

    Readings come every 0.1 s and correct the error of the last one, so that the spent share stays near the
    granted one: 0.95 to 0.98 of it, measured without the probe's aim of 0.95.  Beside busy loops a sample
    may include a preemption, which counts with up to 64 us: the largest measured ratio is 1.1.
    """
    source = BENCHMARKS / "cost" / "malloc_pair.c"
    program = compile_c([source], tmp_path / "malloc_pair", libraries=["pthread"])
    environment = {
        **os.environ,
        "LD_PRELOAD": str(probe_library),
        "OFFHEAP": f"budget=1%,seed=1,dir={tmp_path}",
    }
    with subprocess.Popen([program, "mixed", "2", "1000", "5", "5000"], env=environment) as process:
        time.sleep(1.5)
        (path,) = tmp_path.glob("*.live")
        with LiveFile(path) as live:
            before = live.header.budget
            assert process.wait(60) == 0
            after = live.refresh().budget
    assert before
    assert after
    cpu = after.cpu_seconds - before.cpu_seconds
    spent = after.spent_seconds - before.spent_seconds
    assert cpu > 1
    assert 0.5 < spent / cpu / 0.01 < 1.2


def test_run_records_under_a_budget(changing_load: Path, tmp_path: Path) -> None:
    output = tmp_path / "load.offheap"
    offheap = [sys.executable, "-m", "offheap"]
    words = [
        "run",
        "--budget",
        "0.5%",
        "--interval",
        "256k",
        "-o",
        str(output),
        "--",
        str(changing_load),
        "4",
    ]
    subprocess.run([*offheap, *words], check=True, capture_output=True, timeout=60)
    info = recording.load(output).info
    assert info.budget
    assert info.budget.share == 0.005
    assert info.budget.least_interval_bytes == 256 << 10
    assert 256 << 10 < info.budget.greatest_interval_bytes <= 64 << 20
    assert 256 << 10 <= info.interval_bytes <= info.budget.greatest_interval_bytes
    assert 0 < info.budget.spent_seconds < info.budget.cpu_seconds
    told = subprocess.run(
        [*offheap, "stats", str(output)], check=True, capture_output=True, text=True, timeout=60
    )
    assert "0.5%; taking samples took" in " ".join(told.stdout.split())


MOVES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "rises": lambda time, size: np.float64(64 << 10) * 32 ** (time / 60),
    "falls": lambda time, size: np.maximum((512 << 10) * 2 ** (-time / 2), 64 << 10),
    "rises at once": lambda time, size: np.where(time < 30, 64.0, 512.0) * 1024,
    "falls at once": lambda time, size: np.where(time < 30, 512.0, 64.0) * 1024,
    "rises for large blocks": lambda time, size: np.where(size < 16384, 64, 64 * 16 ** (time / 60)) * 1024,
}


@pytest.mark.parametrize("move", MOVES)
def test_verdicts_stay_right_while_the_interval_moves(move: str) -> None:
    """More samples are no more births: blocks that stay are a leak, blocks of ten seconds are none."""
    for seed in range(8):
        process = Process(duration=60, seed=seed)
        leaking = process.add(inflater("com.example.Feed.open"), Leak(rate=50, size=20_000))
        for name, lifetime in (("brief", 2.0), ("long", 10.0)):
            process.add(inflater(f"com.example.Work.{name}"), Churn(200 / lifetime, 20_000, lifetime))
        process.add(inflater("com.example.Work.small"), Churn(20, 15_000, 10.0))
        process.add(inflater("com.example.Start.load"), WarmUp(blocks=300, size=20_000, half_life=4.0))
        found = suspects(process.record(interval=MOVES[move]))
        verdicts = {suspect.site.stacks[0]: suspect.verdict for suspect in found}
        assert verdicts.pop(leaking) == "leak"
        assert "leak" not in verdicts.values(), (seed, verdicts)
