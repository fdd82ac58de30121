"""What every exported format is made of: whole numbers, by thread and over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.recordings.imported_profiles import SAMPLES
from harness.recordings.java_beside_native import shop
from offheap.formats.exported.content.births_and_frees import births_and_frees
from offheap.formats.exported.content.samples import VALUES, samples
from offheap.formats.exported.formats import FORMATS
from offheap.formats.imported import formats, recorded
from offheap.formats.imported.profile import Profile
from offheap.recording import load
from offheap.recording.model import Recording

_ALL = 10**9  # more events than the recording has


@pytest.fixture(scope="module")
def recording() -> Recording:
    return shop()


def test_figures_that_no_process_has_are_written(recording: Recording) -> None:
    """A damaged or hostile recording may claim any: no format has a larger or a negative number."""
    live, series, process = recording.live.copy(), recording.series.copy(), recording.process.copy()
    live["size"][:5], live["probability"][:5], live["thread"][:5] = 2**64 - 1, 1e-280, 65535
    odd_values = ("live_blocks", np.nan), ("allocated_blocks", np.inf), ("allocated_bytes", -np.inf)
    for name, odd_value in odd_values:
        series[name][::3] = odd_value
    process["live_bytes"][:2], process["rss_bytes"][2] = (np.nan, np.inf), 2**64 - 1
    for sign in (1, -1):
        info = replace(
            recording.info,
            start=sign * 9e14,
            duration_seconds=sign * 9e14,
            pid=sign << 90,
            interval_bytes=sign << 90,
            memory_limit=sign << 90,
        )
        odd = replace(recording, info=info, live=live, series=series, process=process, threads=[])
        with np.errstate(all="ignore"):
            for name in FORMATS:
                assert FORMATS[name].write(odd, "both", "inuse_space"), name
            of = samples(odd)
        for value in VALUES:
            assert of.values[value].min() >= 0


def test_threads_share_what_a_stack_holds(recording: Recording) -> None:
    """GIVEN a stack that three threads hold WHEN it is exported THEN each has its part."""
    live = recording.live.copy()
    live["thread"] = np.arange(len(live)) % 3 + 1
    of = samples(replace(recording, live=live, threads=["other threads", "a", "b", "c"]))
    weights = live["size"] / live["probability"]
    parts = list(of.parts())
    for place, number in enumerate(of.stacks):
        its = [part for at, part in parts if at == place]
        for column, value in enumerate(VALUES):
            assert sum(part.values[column] for part in its) == of.values[value][place]
        assert all(min(part.values) >= 0 for part in its)
        if not (live["stack"] == number).any():
            continue
        held = {part.thread: part.values[0] for part in its if part.thread}
        for thread, name in enumerate(("a", "b", "c"), 1):
            mine = weights[(live["stack"] == number) & (live["thread"] == thread)].sum()
            assert held.get(name, 0) == pytest.approx(mine, abs=2)
        assert of.thread(place) == max(held, key=lambda name: held[name])


def imported(sample: str, folder: Path) -> tuple[Profile, Counter[str]]:
    """The profile that a sample is, and live bytes by thread of what is exported of its recording."""
    profile = formats.read([SAMPLES / sample], None, None, None)
    recorded.write(profile, folder / sample, "")
    threads: Counter[str] = Counter()
    for _, part in samples(load(folder / sample)).parts():
        threads[part.thread] += part.values[0]
    return profile, +threads


def test_an_imports_threads_are_exported(tmp_path: Path) -> None:
    """GIVEN a recording of async-profiler, which has threads, and a profile that has none."""
    profile, threads = imported("async-profiler.jfr.gz", tmp_path)
    held: Counter[str] = Counter()
    for row in profile.live:
        held[profile.threads[row["thread"]]] += int(row["size"])
    assert threads == held
    assert held.keys() > {"DestroyJavaVM", "Common-Cleaner"}
    assert imported("jemalloc.heap", tmp_path)[1].keys() == {""}


def test_a_side_without_a_stack_is_written(recording: Recording) -> None:
    """Java objects are followed, and no collection ran: none is known to have survived."""
    assert recording.java
    assert recording.info.java_heap
    heap = replace(recording.info.java_heap, collections=0, collected=0.0, swept=0.0)
    info = replace(recording.info, java_heap=heap)
    java = replace(recording.java, info=info, collections=None)
    young = replace(recording, info=info, collections=None, java=java)
    assert not samples(young, "java").stacks
    for name in FORMATS:
        assert FORMATS[name].write(young, "java", "inuse_space") or name == "collapsed"


def test_heaptrack_has_the_recordings_time_line(recording: Recording) -> None:
    """Live blocks at a snapshot are the recording's; beyond the limit of events the bytes still are."""
    of = samples(recording)
    for most in (_ALL, 5000):
        moments = births_and_frees(of, most)
        number, size, levels = 0, 0, dict[float, int]()
        events = born = 0
        for moment in moments:
            for sign, some in ((1, moment.born), (-1, moment.freed)):
                number += sign * sum(blocks.number for _, blocks in some)
                size += sign * sum(blocks.size * blocks.number for _, blocks in some)
            levels[moment.time] = number
            born += sum(blocks.number for _, blocks in [*moment.born, *moment.passing])
            events += sum(
                blocks.number for _, blocks in [*moment.born, *moment.freed, *moment.passing, *moment.passing]
            )
        assert size == of.values["inuse_space"].sum()
        if most == _ALL:
            assert born == of.values["alloc_objects"].sum()
            # Native stacks are recorded at every snapshot.
            series, late = recording.series, recording.process["time"][-2]
            assert number == of.values["inuse_objects"].sum()
            last = {int(row["stack"]): row for row in series[series["time"] <= late]}
            native = sum(float(row["live_blocks"]) for row in last.values())
            assert levels[late] > native * 0.95
        else:
            assert events <= most + 2 * len(of.stacks)
