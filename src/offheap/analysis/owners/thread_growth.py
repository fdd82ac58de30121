"""Finds the threads that become more: by their names, else by the first word of these, else all together.

A pool may name each thread after what it serves (a customer, a device), so that no two threads share a name.
It may also rename its threads, so that one name gains what another loses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from offheap.analysis.owners import warm_up
from offheap.analysis.owners.results import Grown
from offheap.analysis.statistics.trend import Floats, Trend, trend
from offheap.recording.model import OwnersOverTime

THREADS = "threads: "  # the prefix of the gauges
OTHER_NAMES = "(other names)"  # the gauge of the threads for whose names a reading has no room
ALL_NAMES = "of all names"
# Threads gained.  The levels of three thirds rise strictly, so that two single starts may be such a rise.
_FEWEST = 3
# The same of several names: single starts of unlike threads are likelier.
_FEWEST_OF_NAMES = 8
_WORD = re.compile(r"[^\W\d_]+")

Growing = tuple[Trend, Grown]


def more_threads(over: OwnersOverTime) -> list[Growing]:
    """The groups of threads that grow, the fastest first."""
    # A reading omits a group without threads.
    counts = {
        name.removeprefix(THREADS): np.nan_to_num(values)
        for name, values in over.gauges.items()
        if name.startswith(THREADS)
    }
    if not counts:
        return []
    # A young process starts its first threads, of many names, one after another.
    keys = (_whole_name, _first_word) if warm_up.is_young(over) else (_whole_name, _first_word, _all)
    for key in keys:
        found = _growing(over, _grouped(counts, key), _FEWEST if key is _whole_name else _FEWEST_OF_NAMES)
        if found:
            return found
    return []


def _growing(over: OwnersOverTime, groups: Mapping[str, Floats], fewest: int) -> list[Growing]:
    found: list[Growing] = []
    rest = np.zeros(len(over.times))
    for name, values in groups.items():
        # A name that single threads had needs no trend: there may be thousands.
        named = name != OTHER_NAMES and values.max() >= fewest
        one = trend(over.times, values) if named else None
        if one and one.grows and one.gained.estimate >= fewest:
            found.append((one, Grown(name, float(values[0]), float(values[-1]), "threads")))
        else:
            rest += values
    gained = sum(one.gained.estimate for one, _ in found)
    if gained - _lost(over, rest) < fewest:
        return []
    return sorted(found, key=lambda pair: -pair[0].rate.estimate)


def _lost(over: OwnersOverTime, values: Floats) -> float:
    """By how many these threads surely became fewer: they may have taken other names."""
    one = trend(over.times, values)
    return -one.gained.estimate if one and one.rate.high < 0 else 0.0


def _grouped(counts: Mapping[str, Floats], key: Callable[[str], str]) -> dict[str, Floats]:
    groups: dict[str, Floats] = {}
    for name, values in counts.items():
        group = key(name)
        groups[group] = groups[group] + values if group in groups else values
    return groups


def _whole_name(name: str) -> str:
    return name


def _first_word(name: str) -> str:
    match = _WORD.search(name)
    return f"{match[0]}..." if match and name != OTHER_NAMES else name


def _all(name: str) -> str:
    return ALL_NAMES
