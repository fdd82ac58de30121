"""The verdict that `offheap live` shows: it does not flicker, and it does not delay an alarm."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.recordings.replay import Sampled
from harness.simulation import Blocks, Churn, Process, UnevenLeak, inflater, native_stack
from offheap.analysis.leaks.leaks import suspects
from offheap.analysis.live.standing_verdict import HOLD_MOST, READINGS, Standing, hold, settled
from offheap.analysis.verdicts.verdict_reasons import VERDICTS, Reason
from offheap.live.follower import Follower
from offheap.recording.model import Recording

# Seconds between readings, and the reason for the verdict of each.
HISTORIES = st.lists(st.tuples(st.floats(0.5, 30), st.sampled_from(Reason)), min_size=1, max_size=60)
QUIET = ("startup", "steady", "cannot tell yet")


def course(readings: list[tuple[float, Reason]]) -> list[tuple[float, Standing]]:
    """The time and the shown verdict after each reading."""
    stood: list[tuple[float, Standing]] = []
    time, standing = 0.0, None
    for step, reason in readings:
        time += step
        standing = settled(standing, reason, 0.8, time)
        stood.append((time, standing))
    return stood


@given(HISTORIES)
def test_what_stands_was_judged(readings: list[tuple[float, Reason]]) -> None:
    for number, (_, standing) in enumerate(course(readings)):
        assert standing.reason in {reason for _, reason in readings[: number + 1]}
        if VERDICTS[readings[number][1]] == standing.verdict:
            assert standing.reason == readings[number][1]


@given(HISTORIES)
def test_the_first_leak_stands_at_once(readings: list[tuple[float, Reason]]) -> None:
    first = next((n for n, (_, reason) in enumerate(readings) if VERDICTS[reason] == "leak"), None)
    if first is not None:
        assert course(readings)[first][1].verdict == "leak"


@given(HISTORIES)
def test_a_verdict_that_falls_was_contradicted_for_as_long_as_the_hold(
    readings: list[tuple[float, Reason]],
) -> None:
    stood = course(readings)
    for number, ((_, before), (time, after)) in enumerate(pairwise(stood), 1):
        if before.verdict not in ("leak", "growing") or after.verdict in (before.verdict, "freed", "leak"):
            continue
        agreed = [n for n in range(number) if VERDICTS[readings[n][1]] == before.verdict]
        assert number - agreed[-1] >= READINGS
        assert time - stood[agreed[-1] + 1][0] >= hold(time)


@given(HISTORIES, st.sampled_from(Reason), st.floats(1, 10))
def test_what_holds_stands_in_time(
    readings: list[tuple[float, Reason]], reason: Reason, every: float
) -> None:
    last = sum(step for step, _ in readings)
    enough = int((hold(last + 2 * HOLD_MOST) + every) / every) + READINGS
    assert course([*readings, *[(every, reason)] * enough])[-1][1].verdict == VERDICTS[reason]


@given(st.lists(st.sampled_from(Reason), min_size=2, max_size=300))
def test_flicker_from_reading_to_reading_changes_little(reasons: list[Reason]) -> None:
    """Any verdicts, one a second, for five minutes."""
    judged = [(1.0, reason) for reason in reasons if VERDICTS[reason] != "freed"]
    stood = [standing.verdict for _, standing in course(judged)]
    changes = sum(a != b for a, b in pairwise(stood))
    # Three at first; then one each third of the elapsed time, and after three minutes one a minute.
    assert changes <= 3 + 14


def test_leak_growing_leak_at_25_seconds_is_one_leak() -> None:
    leak, growing = (13, 26), (26, 29)
    judged = [
        Reason.LEAKS if second in range(*leak) or second >= growing[1] else Reason.MAY_END
        for second in range(4, 41)
    ]
    stood = [
        standing.verdict for _, standing in course([(4.0, judged[0]), *((1.0, each) for each in judged[1:])])
    ]
    assert [verdict for verdict, _ in groupby(stood)] == ["growing", "leak"]
    assert stood.index("leak") == judged.index(Reason.LEAKS)


def sampled(seed: int, duration: float) -> tuple[Process, int]:
    """An uneven leak of 280 KiB/s beside churn, with so few samples that verdicts waver."""
    process = Process(duration=duration, seed=seed)
    leak = process.add(inflater("com.example.Foo.leak"), UnevenLeak(rate=40, size=7160, spread=0.9))
    process.add(native_stack("churn"), Churn(rate=400, size=20000, lifetime=2.0))
    draw = np.random.default_rng(seed)
    for number in (1, 2):
        blocks = process.blocks[number]
        chosen = draw.random(len(blocks.sizes)) < -np.expm1(-blocks.sizes / (512 * 1024))
        process.blocks[number] = Blocks(*(a[chosen] for a in (blocks.births, blocks.deaths, blocks.sizes)))
    return process, leak


@pytest.mark.parametrize("seed", [1, 3, 4, 5, 8])
def test_a_watched_leak_does_not_flicker(seed: int) -> None:
    """With these seeds the verdicts of single readings go from leak to growing and back."""
    process, _ = sampled(seed, 40)
    watch = Follower(Sampled(process, [float(second) for second in range(1, 41)]))
    verdicts: list[str] = []
    answers: list[str] = []
    for _ in range(40):
        watch._due = 0.0  # judges at every reading
        view = watch.advance()
        assert view
        its = [suspect for suspect in view.names.suspects if suspect.blamed.name == "com.example.Foo.leak"]
        if its:
            verdicts.append(its[0].verdict)
            answers.append(view.names.answer.partition(":")[0])
            if "by this reading alone" in its[0].why:
                assert its[0].verdict == "leak" or "leak" not in verdicts
    told = [verdict for verdict, _ in groupby(verdicts)]
    assert told.count("leak") == 1
    assert told[-1] == "leak"
    # The sentence at the top agrees with the table.
    assert all(
        (verdict == "leak") == (answer == "Leaking")
        for verdict, answer in zip(verdicts, answers, strict=True)
    )


def test_the_last_reading_says_what_leaks_says() -> None:
    process, _ = sampled(1, 30)  # the verdict at 30 s is growing
    source = Sampled(process, [float(second) for second in range(1, 31)])
    watch = Follower(source)
    for _ in range(30):
        watch._due = 0.0
        view = watch.advance()
    assert view
    assert view.over
    alone = suspects(watch_recording(watch, source))
    assert [s.verdict for s in view.names.suspects] == [s.verdict for s in alone]
    assert not any("by this reading alone" in s.why for s in view.names.suspects)


def watch_recording(watch: Follower, source: Sampled) -> Recording:
    recording = source.recording()
    return replace(recording, series=watch._series(), process=watch._process(recording.process))
