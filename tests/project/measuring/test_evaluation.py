"""The evaluation of the verdicts in its shortest form; `make evaluate` prints the figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import needs
from harness.evaluation import real_jvms, scenarios, simulated_verdicts
from harness.jvms import churn_jvm
from harness.jvms.zoo import Zoo

RATES, CHURN = (1e5, 1e7), (0.0, 1e8)


@pytest.mark.parametrize("mode", simulated_verdicts.MODES)
def test_leaks_are_found_within_fifteen_minutes(mode: str) -> None:
    for seed, scenario in enumerate((*scenarios.leaks(RATES, CHURN), *scenarios.shapes(1e5))):
        (judged,) = simulated_verdicts.judge(scenario, mode, seed, [900.0])
        assert judged.found, (scenario.name, scenario.leak, judged.subject)
        assert not judged.alarms


@pytest.mark.parametrize(
    ("rate", "where", "seconds", "least"),
    [(1e4, "alike", 900.0, 11), (1e4, "same", 900.0, 11), (1e5, "same", 60.0, 9), (1e5, "own", 60.0, 9)],
)
def test_a_leak_of_few_samples_is_told_from_churn(
    rate: float, where: str, seconds: float, least: int
) -> None:
    """Under 1 GB/s of churn: ten samples in a minute, or some twenty in fifteen."""
    scenario = next(one for one in scenarios.leaks((rate,), (1e9,)) if one.name == where)
    judged = [simulated_verdicts.judge(scenario, "budget 1 %", seed, [seconds])[0] for seed in range(12)]
    assert sum(one.found for one in judged) >= least
    assert not any(one.alarms for one in judged)


@pytest.mark.parametrize(("mode", "seconds"), [("budget 1 %", 60.0), ("512 KiB", 60.0), ("512 KiB", 300.0)])
def test_healthy_programs_raise_no_alarm(mode: str, seconds: float) -> None:
    for scenario in scenarios.healthy(np.random.default_rng(int(seconds))):
        (judged,) = simulated_verdicts.judge(scenario, mode, 5, [seconds])
        assert not judged.alarms, scenario.name


def test_what_hotspot_compiles_in_bursts_is_no_leak() -> None:
    """A process's first minutes; recorded exactly, because sampling would catch none of it."""
    for seed in range(20):
        scenario = scenarios.healthy(np.random.default_rng(seed))[-1]
        assert scenario.stack == scenarios.COMPILED
        for judged in simulated_verdicts.judge(
            scenario, "exact", seed, [45.0, 75.0, 90.0, 150.0, 240.0, 900.0]
        ):
            assert not judged.alarms, (seed, judged)


def test_what_hotspot_leaks_on_a_thread_of_its_own_is_found() -> None:
    scenario = scenarios.Scenario("of a compiler", (scenarios.leak(1e4),), 1e4, stack=scenarios.COMPILED)
    for seed in range(3):
        for judged in simulated_verdicts.judge(scenario, "exact", seed, [120.0, 900.0]):
            assert judged.found, (seed, judged)


def test_what_compiled_code_may_need_on_a_thread_of_hotspots_own_is_no_leak_yet() -> None:
    """Even straight growth: bursts look straight by chance, on real JVMs after two to four minutes."""
    scenario = scenarios.Scenario("of a compiler", (scenarios.leak(1e3),), 1e3, stack=scenarios.COMPILED)
    for seed in range(3):
        early, late = simulated_verdicts.judge(scenario, "exact", seed, [240.0, 900.0])
        assert early.subject is not None
        assert early.subject.verdict == "growing", (seed, early)
        assert late.found, (seed, late)


def test_a_missed_leak_and_a_false_alarm_count_as_such() -> None:
    leak = scenarios.leaks((1e5,), (0.0,))[0]
    right, wrong = (
        simulated_verdicts.Said("leak", 0.97, True, ""),
        simulated_verdicts.Said("leak", 0.97, False, ""),
    )
    found = simulated_verdicts.Judged(leak, 900.0, right, (), True)
    missed = simulated_verdicts.Judged(
        leak, 900.0, simulated_verdicts.Said("growing", 0.9, True, ""), (), None
    )
    alarm = simulated_verdicts.Judged(leak, 900.0, right, (wrong,), True)
    assert list(simulated_verdicts.targets([found]).values()) == [True, True, True]
    assert list(simulated_verdicts.targets([found, missed]).values()) == [False, True, True]
    assert list(simulated_verdicts.targets([found, alarm]).values()) == [True, False, False]
    assert "66.7% of 3" in "\n".join(simulated_verdicts.calibration_table([found, alarm]))


def test_a_real_jvm_is_judged_while_it_is_recorded(jres: dict[int, Path], zoo: Zoo, tmp_path: Path) -> None:
    """The same call path leaks a tenth of its allocation; the harness must tell that leak from the JVM's own
    sites, and knows its rate."""
    needs.jre(17, 17 in jres)
    classes = churn_jvm.compile_java("LeakUnderChurn.java", tmp_path / "classes")
    case = real_jvms.Case("exact", 17, "LeakUnderChurn", "unsafe", 1e6, 1e7)
    _, judged = real_jvms.run(case, classes, zoo, tmp_path, readings=[5.0, 12.0])
    assert judged.leak
    assert (judged.leak.verdict, judged.first, judged.alarms) == ("leak", True, [])
    assert judged.covered is not None
    assert len(judged.others) > 20


def test_only_the_applications_own_stack_of_the_leak_counts_as_found() -> None:
    case = real_jvms.Case("exact", 17, "LeakUnderChurn", "inflater", 1e6)

    def said(*suspects: dict[str, object]) -> dict[str, object]:
        return {"recording": {"duration_seconds": 58.0}, "suspects": suspects}

    def suspect(rank: int, *names: str) -> dict[str, object]:
        growth = {"low": 0.9e6, "high": 1.1e6}
        frames = [{"name": name} for name in names]
        return {
            "rank": rank,
            "verdict": "leak",
            "confidence": 0.9,
            "stack": frames,
            "growth_bytes_per_second": growth,
        }

    its = suspect(2, "malloc", "java.util.zip.Inflater.init", "LeakUnderChurn.inflate")
    loader = suspect(1, "malloc", "JVM_DefineClass", "LeakUnderChurn.inflate", "LeakUnderChurn.main")
    judged = real_jvms.judge(case, 60, said(loader, its), 1e6)
    assert (judged.found, judged.first, judged.covered) == (True, False, True)
    assert [alarm.about for alarm in judged.alarms] == ["LeakUnderChurn.main"]
    unseen = real_jvms.judge(case, 60, said(loader), None)
    assert not unseen.found
    assert real_jvms.missed_table([judged, unseen])[2:] == ["| not seen | 1 | 0 |"]
    healthy = real_jvms.Case("exact", 17, "churn")
    assert len(real_jvms.judge(healthy, 60, said(loader, its), None).alarms) == 2
    table = "\n".join(real_jvms.summary_table([judged]))
    assert "| exact | 1 min | 58.0 s | 1 of 1 | 1 of 1 | 0 of 1 | 1 of 2 | - | 1 of 1 |" in table
