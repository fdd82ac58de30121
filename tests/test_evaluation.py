"""The evaluation of the verdicts in its shortest form: `make evaluate` has the figures."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import evaluate
import scenarios

RATES, CHURN = (1e5, 1e7), (0.0, 1e8)


@pytest.mark.parametrize("mode", ["512 KiB", "exact"])
def test_leaks_are_found_within_fifteen_minutes(mode: str) -> None:
    for seed, scenario in enumerate((*scenarios.leaks(RATES, CHURN), *scenarios.shapes(1e5))):
        (judged,) = evaluate.judge(scenario, evaluate.MODES[mode], seed, [900.0])
        assert judged.found, (scenario.name, scenario.leak, judged.subject)
        assert not judged.alarms


@pytest.mark.parametrize("seconds", [60.0, 300.0])
def test_healthy_programs_raise_no_alarm(seconds: float) -> None:
    for scenario in scenarios.healthy(np.random.default_rng(int(seconds))):
        (judged,) = evaluate.judge(scenario, evaluate.MODES["512 KiB"], 5, [seconds])
        assert not judged.alarms, scenario.name


def test_a_missed_leak_and_a_false_alarm_count_as_such() -> None:
    leak = scenarios.leaks((1e5,), (0.0,))[0]
    right, wrong = evaluate.Said("leak", 0.97, True, ""), evaluate.Said("leak", 0.97, False, "")
    found = evaluate.Judged(leak, 1, 900.0, right, (), True)
    missed = evaluate.Judged(leak, 1, 900.0, evaluate.Said("growing", 0.9, True, ""), (), None)
    alarm = evaluate.Judged(leak, 1, 900.0, right, (wrong,), True)
    assert evaluate.targets_met([found])
    assert not evaluate.targets_met([found, missed])
    assert not evaluate.targets_met([found, alarm])
    assert "66.7% of 3" in "\n".join(evaluate.calibration_table([found, alarm]))
