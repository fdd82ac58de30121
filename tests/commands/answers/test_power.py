"""The leak rate that a recording excludes: leaks of that rate are reported, healthy programs are cleared."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import needs
from harness.command_line import offheap_check
from harness.evaluation import simulated_verdicts
from harness.evaluation.excluded_rates import LEAKY, healthy, honest, judged, reported
from harness.jvms import churn_jvm
from harness.jvms.zoo import Zoo
from harness.plugins.rotation import with_slow
from harness.simulation import (
    INTERVAL,
    Born,
    Cache,
    Churn,
    Flow,
    Leak,
    Process,
    UnevenLeak,
    WarmUp,
    arrivals,
    inflater,
    native_stack,
)
from offheap.analysis.gate.gate import Limits, gate
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.conclusion import Conclusion, conclude
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.totals import totals
from offheap.analysis.verdicts.power import (
    DEFAULT_LIMIT,
    bytes_per_sample,
    interval_for,
    precision,
    samples_needed,
)
from offheap.analysis.verdicts.power import reported as probability
from offheap.quantities import format_duration, round_up_seconds

MIB_A_MINUTE = (1 << 20) / 60
SECONDS = with_slow([5.0, 60.0], [25.0])
RUNS = 30  # of each mode and time


def enough(successes: int, runs: int) -> bool:
    """Whether the number of successes is consistent with a true share of 95 %.

    Three standard deviations of a binomial share: with two, one of eighteen would fail in a third of cases.
    """
    return successes >= 0.95 * runs - 3 * math.sqrt(0.95 * 0.05 * runs)


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("mode", simulated_verdicts.MODES)
def test_a_leak_of_what_is_excluded_is_reported(mode: str, seconds: float) -> None:
    """The leak has its own stack, beside all other allocations of a JVM and its program."""
    assert enough(sum(reported(mode, seconds, seed) for seed in range(RUNS)), RUNS)


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("mode", simulated_verdicts.MODES)
def test_no_leak_is_cleared_at_less_than_its_rate(mode: str, seconds: float) -> None:
    """The leak is in a site of the healthy program, which alone would be cleared at that rate."""
    assert enough(sum(honest(mode, seconds, seed) for seed in range(RUNS)), RUNS)


@pytest.mark.parametrize(("mode", "least"), [("budget 1 %", 0.7), ("exact", 0.9)])
def test_a_healthy_minute_is_mostly_cleared(mode: str, least: float) -> None:
    told = [conclude(judged(healthy(60.0, seed), mode, 60.0), 2 * MIB_A_MINUTE) for seed in range(RUNS)]
    assert sum(one.kind == "no leak" for one in told) >= least * RUNS
    assert all(one.power.bytes_per_second <= one.limit for one in told if one.kind == "no leak")


def test_an_uneven_leak_that_is_missed_is_rare_too() -> None:
    """X assumes an even birth rate; births in a real server scatter."""
    found = 0
    for seed in range(RUNS):
        process = healthy(60.0, seed)
        power = conclude(judged(process, "budget 1 %", 60.0)).power
        blocks = 2 * power.new_site / 1024 / math.exp(0.6**2 / 2)
        leak = process.add(LEAKY, UnevenLeak(blocks, 1024.0))
        ranked = judged(process, "budget 1 %", 60.0)
        found += any(leak in s.site.stacks and s.verdict in ("leak", "growing") for s in ranked)
    assert enough(found, RUNS), found


def test_how_many_samples_it_takes_is_what_chance_says() -> None:
    """The integral against simulated draws, to which the same rules apply."""
    random = np.random.default_rng(1)
    for seconds, samples in ((4.0, 8.0), (10.0, 6.0), (60.0, 12.0)):
        hits = 0
        for _ in range(4000):
            times = arrivals(samples / seconds, 0.0, seconds, random)
            if not len(times) or seconds - times[0] < 3.0:
                continue
            thirds = np.histogram(times, times[0] + (seconds - times[0]) * np.array((1 / 3, 2 / 3, 1.0)))[0]
            hits += thirds.min() > 0 and thirds.sum() >= 3
        assert hits / 4000 == pytest.approx(probability(samples, seconds), abs=0.025)
    assert 12 < samples_needed(3600.0) < 13.5
    assert probability(samples_needed(10.0), 10.0) == pytest.approx(0.95, abs=0.001)
    assert math.isinf(samples_needed(3.0))


def leaking(rate: float, size: float = 7160.0, flow: Flow | None = None) -> Process:
    process = Process(130.0, 3)
    process.add(LEAKY, *([Leak(rate / size, size)] if rate else []), flow=flow)
    process.add(inflater("com.example.Shop.serve", "com.example.Main.main"), Churn(300, 7160, 0.1))
    return process


def said(process: Process, seconds: float, interval: int = 44 << 10) -> tuple[Conclusion, str]:
    recording = process.record(until=seconds, interval=interval)
    return conclude(ranking(recording)), answer(ranking(recording))


def test_a_short_recording_of_a_leak_gives_no_all_clear_and_a_long_one_of_none_does() -> None:
    for seed in range(10):
        process = leaking(105 * 1024)
        process.seed = seed
        found, words = said(process, 5.0)
        assert found.kind in ("leak", "growing", "cannot tell yet"), words
        assert "No leak found" not in words
        outcome = gate(process.record(until=5.0, interval=44 << 10), Limits()).outcome
        assert outcome != "passed"
    found, words = said(leaking(0.0), 120.0)
    assert found.kind == "no leak"
    assert words.startswith("No leak found in 2 min: no site leaks more than ")
    assert found.power.bytes_per_second < MIB_A_MINUTE


def test_what_cannot_be_told_says_how_long_it_takes_and_then_it_is_told() -> None:
    for interval, seconds in ((64 << 10, 6.0), (INTERVAL, 30.0)):
        short, words = said(leaking(0.0), seconds, interval)
        assert short.kind == "cannot tell yet"
        assert short.seconds is not None
        assert " more (" in words or "Record " in words
        assert short.seconds <= 120
        assert said(leaking(0.0), short.seconds, interval)[0].kind == "no leak"
    (check,) = gate(leaking(0.0).record(until=6.0), Limits()).checks
    assert check.outcome == "cannot tell"
    assert "record " in check.why


def test_what_a_site_keeps_hides_a_leak() -> None:
    """A full cache has the leak's stack: the leak is invisible, and must not be excluded."""
    rate = 3500.0
    for seed in range(4):
        process = Process(60.0, seed)
        stack = inflater("com.example.Shop.serve", "com.example.Main.main")
        process.add(stack, Cache(300, 7160, 9000))
        process.add(stack, Leak(rate / 1024, 1024.0))
        recording = process.record(exact=True)
        found = conclude(ranking(recording))
        assert found.power.new_site < rate / 4, "at a stack of its own it would be reported"
        assert found.power.bytes_per_second > rate
        assert found.kind == "cannot tell yet"
        assert gate(recording, Limits()).outcome == "cannot tell"


def test_lost_samples_exclude_less() -> None:
    recording = leaking(0.0).record(until=120.0, interval=44 << 10)
    taken = totals.samples(recording)
    half = replace(recording, info=replace(recording.info, lost={"lost_blocks": taken}))
    whole = conclude(ranking(recording)).power
    assert conclude(ranking(half)).power.bytes_per_second == pytest.approx(2 * whole.bytes_per_second)


def test_growth_that_is_not_shown_to_be_a_leak_says_how_long_it_takes() -> None:
    process = Process(20.0, 1)
    process.add(native_stack("decode"), Leak(1.0, 600_000))
    slow = process.record(until=12.0, interval=1 << 20)
    found = conclude(ranking(slow))
    assert found.kind == "growing", found
    assert found.seconds == 60
    assert "Record 50 s more (1 min in all)." in answer(ranking(slow))
    (check,) = gate(slow, Limits()).checks
    assert check.outcome == "cannot tell"
    assert check.why.endswith("record 50 s more (1 min in all)")


def test_what_met_young_collections_takes_longer_too() -> None:
    """`leaks` says the same: a full collection might still free the blocks, but a longer recording tells."""
    process = Process(20.0, 1)
    process.add(inflater("com.example.Shop.serve", "com.example.Main.main"), Leak(1.0, 600_000))
    process.collections = [(time, "young") for time in (2.0, 4.0, 6.0, 8.0, 10.0)]
    recording = process.record(until=12.0, interval=1 << 20)
    assert "Record 50 s more (1 min in all)." in answer(ranking(recording))
    (check,) = gate(recording, Limits()).checks
    assert check.outcome == "cannot tell"
    assert "-Xmn8m" not in check.why, "it has collections enough"
    assert check.why.endswith("record 50 s more (1 min in all)")


@pytest.mark.parametrize(
    ("leak", "outcome"), [(300 * 1024 / 60, "failed"), (0.0, "passed"), (60 * 1024 / 60, "passed")]
)
def test_an_exact_recording_decides_what_sampling_cannot(leak: float, outcome: str) -> None:
    """200 KiB/min after 25 s, under 1 GB/s of the same site."""
    process = leaking(leak, 1024.0, flow=Flow(1e9 / 65_536, 65_536, 0.0005))
    limits = Limits(max_growth=200 * 1024 / 60)
    assert gate(process.record(until=25.0, exact=True), limits).outcome == outcome
    (sampled,) = gate(process.record(until=25.0), limits).checks
    assert sampled.outcome == "cannot tell"
    assert "or 1 min with --interval 8KiB" in sampled.why


def test_the_precision_follows_from_the_gate() -> None:
    assert precision(200 * 1024 / 60).interval_bytes == 0
    assert precision(200 * 1024 / 60, 600.0).interval_bytes == 64 << 10
    assert precision(MIB_A_MINUTE).interval_bytes == 8 << 10
    assert precision(DEFAULT_LIMIT).interval_bytes == 32 << 10
    assert precision(1e12).interval_bytes == 64 << 10
    assert precision(0.0).interval_bytes == 0
    assert "200 KiB/min within 20.0 s" in precision(200 * 1024 / 60).why
    for limit, seconds in ((MIB_A_MINUTE, 60.0), (DEFAULT_LIMIT, 20.0)):
        interval = interval_for(limit, seconds)
        assert samples_needed(seconds) * bytes_per_sample(interval) / seconds <= limit


def test_times_are_such_as_people_would_choose() -> None:
    assert [round_up_seconds(x) for x in (1, 31, 61, 119, 121, math.inf)] == [5, 35, 70, 120, 180, math.inf]


def test_check_chooses_a_precision_that_decides(
    jres: dict[int, Path], zoo: Zoo, probe_library: Path, tmp_path: Path
) -> None:
    """A JVM that churns 200 MB/s, with and without a leak of ten blocks a second."""
    needs.jre(17, 17 in jres)
    classes = churn_jvm.compile_java("LeakUnderChurn.java", tmp_path / "classes")

    def check(name: str, leak: int, churn: str, *options: str) -> tuple[int, str]:
        program = [
            "-Xmx128m",
            "-cp",
            str(classes),
            "LeakUnderChurn",
            "unsafe",
            str(leak),
            churn,
            "1024",
            "65536",
        ]
        # The program starts late on a busy machine; --duration keeps the length of the recording.
        command = ["sh", "-c", 'timeout 30 "$@"; true', "sh", str(jres[17]), *program]
        options = ("--max-growth", "400KiB/min", "--duration", "20s", *options)
        done = offheap_check(tmp_path, *options, "-o", name, "--", *command)
        return done.returncode, done.stdout + done.stderr

    with ThreadPoolExecutor(3) as executor:
        leaks = executor.submit(check, "leak.offheap", 10_240, "2e8")
        well = executor.submit(check, "well.offheap", 0, "2e8")
        theirs = executor.submit(check, "own.offheap", 0, "1e7", "--interval", "512KiB")
    status, text = leaks.result()
    assert status == 1, text
    assert "LeakUnderChurn.store" in text
    status, text = well.result()
    assert status == 0, text
    assert "recording every block, as --exact does: to show or exclude a leak of 400 KiB/min" in text
    assert "no site grows by more than" in text
    status, text = theirs.result()
    assert status == 3, text
    assert "recording every block" not in text
    assert "record " in text
    assert "to exclude one of 400 KiB/min" in text


@pytest.mark.parametrize("hours", [11, 13, 24 * 7])
def test_growth_is_followed_for_as_long_again_however_long_that_is(hours: int) -> None:
    """A day is the longest recording that is advised to exclude a leak, not to follow one that may be."""
    seconds = hours * 3600.0
    process = Process(seconds, 3)
    process.add(native_stack("index"), WarmUp(300, 7160, seconds / 3))
    recording = process.record(exact=True, snapshots=60)
    ranked = ranking(recording)
    assert ranked.verdicts == ["growing"]
    advised = f"{format_duration(seconds)} more ({format_duration(2 * seconds)} in all)"
    assert answer(ranked).endswith(f"Record {advised}.")
    (check,) = gate(recording, Limits()).checks
    assert check.why.endswith(f"record {advised}")


@pytest.mark.parametrize(("size", "blocks"), [(64_000, 64), (2_000, 1_500)])
def test_a_leak_in_waves_is_not_excluded(size: int, blocks: int) -> None:
    """A batch each half minute: of 65 s some part has no birth, and all together grow."""
    wrong = []
    for begin in range(0, 30, 3):
        process = Process(65.0, begin)
        times = [wave + at / 1000 for wave in range(begin, 65, 30) for at in range(blocks)]
        process.add(inflater("com.example.Reports.render"), Born(tuple(t for t in times if t < 65), size))
        process.add(inflater("com.example.Other.work"), Churn(300, 7160, 0.1))
        found = conclude(ranking(process.record(interval=32 << 10)))
        truth = blocks * size / 30
        if found.kind == "no leak" and found.power.bytes_per_second < 0.8 * truth:
            wrong.append(begin)
    assert not wrong


def test_a_start_up_is_no_leak_in_waves() -> None:
    """Few blocks come again, after a long pause, and none is freed."""
    process = Process(60.0, 1)
    early, late = [at / 40 for at in range(400)], [55 + at / 10 for at in range(8)]
    process.add(inflater("com.example.Main.load"), Born((*early, *late), 64_000))
    found = conclude(ranking(process.record(exact=True)))
    assert found.power.bytes_per_second < DEFAULT_LIMIT / 40
