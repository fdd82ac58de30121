"""Requested and touched bytes: the report mentions both if RSS grows clearly slower than the leak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness import simulation
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.touched_bytes import requested_and_touched
from offheap.recording.model import Recording

MIB = 1 << 20


def leaking(size: int) -> Recording:
    process = simulation.Process(duration=60, seed=3)
    process.add(simulation.inflater("com.example.Feed.open"), simulation.Leak(rate=3 * MIB / size, size=size))
    return process.record(exact=True)


def said(recording: Recording, rss: float, noise: float = 0.0) -> str:
    """The answer for an RSS that grows by so many MiB a second."""
    process = recording.process.copy()
    grown = 100 + rss * process["time"] + noise * np.random.default_rng(1).normal(size=len(process))
    process["rss_bytes"] = (grown * MIB).astype(np.uint64)
    found = ranking(recording)
    leaks = [one for one in found if one.verdict == "leak"]
    assert leaks
    return requested_and_touched(replace(recording, process=process), leaks, found.rate_unit)


def test_both_are_said_where_they_differ() -> None:
    text = said(leaking(MIB), 0.4)
    assert " MiB/s are requested, RSS grows by 410 KiB/s (" in text
    assert text.endswith(": blocks of 1.0 MiB take memory only where they are touched")
    assert said(leaking(8192), 0.4).endswith(")"), "what fills a page is touched with its neighbours"


@pytest.mark.parametrize(("rss", "noise"), [(3.0, 0.0), (2.0, 60.0), (5.0, 1.0), (-1.0, 0.0)])
def test_nothing_is_said_where_they_agree_or_noise_may_hide_it(rss: float, noise: float) -> None:
    assert said(leaking(8192), rss, noise) == ""


def test_nothing_is_said_where_rss_is_not_known_or_nothing_leaks() -> None:
    recording = leaking(8192)
    process = recording.process.copy()
    process["rss_bytes"] = 0
    found = ranking(recording)
    assert not requested_and_touched(replace(recording, process=process), found[:1], found.rate_unit)
    assert not requested_and_touched(recording, [], found.rate_unit)
