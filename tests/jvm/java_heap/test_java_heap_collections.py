"""What is said of Java objects where collections are missing: nothing is called live that may be garbage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.jvms.heap_cases import PROGRAMS, Setting, of_place, record
from harness.jvms.zoo import Zoo
from harness.warm_command import warm
from offheap.recording.storage.reader import load

pytestmark = pytest.mark.usefixtures("probe_library")
SECONDS = 12.0
# HotSpot samples no object in what is left of a thread's buffer (TLAB) when the recording begins: with these
# 256 MiB for young objects a buffer is as large as this.
FIRST_BUFFER = 4 << 20


def test_without_a_collection_nothing_is_live_and_the_verdict_waits(
    zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    jre(17)
    roomy = ("-Xmx512m", "-Xmn256m", "-Dcollect=never")
    setting = Setting(17, "Serial", "run")
    result = record(
        PROGRAMS["static-map"], setting, zoo, tmp_path, seconds=SECONDS, heap=roomy, collect=False
    )
    found = result.java_heap
    assert found["undecided"].startswith("cannot tell yet")
    assert "--gc" in found["undecided"]
    assert not result.suspects("leak")
    assert not result.suspects("growing")
    assert found["survivors"]["bytes"]["estimate"] == 0
    (held,) = result.held
    uncollected = found["uncollected"]["bytes"]
    assert uncollected["high"] > held.bytes


@pytest.mark.parametrize(("name", "version"), [("sessions", 11), ("batch", 25)])
def test_garbage_that_waits_for_an_old_collection_is_no_leak(
    name: str, version: int, zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    """Young collections alone make the sessions old; only a collection of the old generation frees them."""
    jre(version)
    program, setting = PROGRAMS[name], Setting(version, "Serial", "run")
    heap = ("-Xmx512m", "-Dcollect=never", "-XX:MaxTenuringThreshold=0")
    result = record(program, setting, zoo, tmp_path, heap=heap, collect=False)
    assert not result.suspects("leak"), result.suspects("leak")


@pytest.mark.parametrize("name", ["sessions", "batch"])
def test_garbage_that_generational_zgc_keeps_followed_is_no_leak(
    name: str, zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    """Without a collection that promotes all objects first, its collections free no young followed object."""
    jre(25)
    heap = ("-Xmx64m", "-Dcollect=never")
    result = record(PROGRAMS[name], Setting(25, "ZGC", "run"), zoo, tmp_path, heap=heap, collect=False)
    recording = load(result.path)
    assert recording.collections is not None
    assert len(recording.collections.kinds) > 0, "collections ran"
    found = result.java_heap
    assert not result.suspects("leak")
    assert not result.suspects("growing")
    assert "generational ZGC keeps them until they are old" in found["undecided"]
    assert found["survivors"]["bytes"]["high"] == 0


def test_what_zgc_meets_is_what_was_born_before_its_cycle(
    zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    """Garbage that a program makes while ZGC marks is not freed by that cycle, and not called live."""
    jre(17)
    heap = ("-Xmx256m", "-Dcollect=never")
    result = record(PROGRAMS["batch"], Setting(17, "ZGC", "run"), zoo, tmp_path, heap=heap, collect=False)
    recording = load(result.path)
    known = recording.collections
    assert known is not None
    cycles = [known.ended[row] - known.begun[row] for row, kind in enumerate(known.kinds)]
    assert cycles
    assert min(cycles) > 0.0005, "a cycle marks for longer than a pause takes"


def test_a_collection_on_request_settles_it(zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path) -> None:
    """The same program and heap as without a collection, with one at the end: the map's answers are live."""
    jre(17)
    roomy = ("-Xmx512m", "-Xmn256m", "-Dcollect=never")
    result = record(
        PROGRAMS["static-map"], Setting(17, "Serial", "run"), zoo, tmp_path, seconds=SECONDS, heap=roomy
    )
    found = result.java_heap
    (held,) = result.held
    survivors = found["survivors"]["bytes"]
    assert held.bytes - FIRST_BUFFER < survivors["high"]
    assert survivors["low"] < held.bytes + (8 << 20)
    assert found["suspects"][0]["stack"][0]["name"] == "byte[]"
    assert found["suspects"][0]["verdict"] in ("leak", "growing", "cannot tell yet")


def test_without_performance_counters_there_are_no_books(
    zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    jre(21)
    setting, options = Setting(21, "Serial", "run"), ("-XX:-UsePerfData",)
    result = record(PROGRAMS["static-map"], setting, zoo, tmp_path, seconds=4.0, heap=options)
    found = result.java_heap
    assert found["state"] == "followed"
    (held,) = result.held
    site = of_place(result, held)
    assert site
    assert site["live_bytes"]["estimate"] > held.bytes / 2, "the recording goes on without them"
    assert found["books"] is None
    assert [one for one in found["coverage"] if "-XX:-UsePerfData" in one], found["coverage"]
    refused = warm("leaks", result.path, "--scale-to-heap")
    assert refused.returncode == 2
    assert "-XX:-UsePerfData" in refused.stderr
