"""The times of a JVM's collections: read from performance data, of every collector on real JVMs."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import needs
from harness.command_line import offheap
from harness.jvms.waiting_jvm import waiting_jvm
from harness.paths import DATA, JAVA
from harness.warm_command import warm
from offheap.jvm.counters import hsperfdata
from offheap.jvm.counters.collection_log import CollectionLog, _Collector
from offheap.jvm.counters.collectors import family, kind_of
from offheap.jvm.counters.cycles import Cycles
from offheap.jvm.listener.collection import collect
from offheap.recording import model
from offheap.recording.storage.reader import load

SAMPLES = DATA / "hsperfdata"


@pytest.mark.parametrize(
    ("sample", "kinds"),
    [
        ("11-parallel", {0: "young", 1: "full"}),
        ("17-serial", {0: "young", 1: "full"}),
        ("21-g1", {0: "young", 1: "full", 2: "concurrent"}),
        ("25-z", {0: "young", 2: "concurrent"}),
    ],
)
def test_collectors_are_told_apart(sample: str, kinds: dict[int, str]) -> None:
    performance = hsperfdata.parse(gzip.decompress((SAMPLES / f"{sample}.gz").read_bytes()))
    for number, kind in kinds.items():
        name = performance.text(f"sun.gc.collector.{number}.name")
        assert name
        assert kind_of(number, name, performance.vm_arguments) == kind


def test_collectors_by_name() -> None:
    generational = "-Xmx1g -XX:ShenandoahGCMode=generational"
    assert kind_of(1, "Shenandoah full") == "concurrent"
    assert kind_of(1, "Shenandoah full", generational) == "young", "most of its cycles are young ones"
    assert kind_of(2, "CMS stop-the-world phases") == "concurrent"
    assert kind_of(2, "stop-the-world") == "concurrent"
    assert kind_of(1, "MSC") == "full"
    assert kind_of(1, "Parallel full collection pauses") == "full"
    assert kind_of(1, "G1 full collection pauses") == "full"
    assert kind_of(1, "a new one") == "young"


def test_families_that_judging_has_to_know() -> None:
    assert family(["G1 young collection pauses", "G1 concurrent cycle pauses"]) == model.G1
    assert family(["ZGC minor collection pauses", "ZGC major collection pauses"]) == model.GENERATIONAL_Z
    assert family(["Z concurrent cycle pauses"]) == ""
    assert family([]) == ""


@pytest.mark.parametrize(
    ("version", "collector", "kind"),
    [
        (11, "G1", "full"),
        (17, "Parallel", "full"),
        (21, "Serial", "full"),
        (17, "Z", "concurrent"),
        (25, "Z", "full"),
        (21, "Shenandoah", "concurrent"),
        (25, "G1", "full"),
    ],
)
def test_a_collection_is_seen_when_it_ran(
    version: int, collector: str, kind: str, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    options = ("-XX:-UseSerialGC", f"-XX:+Use{collector}GC")
    with (
        waiting_jvm(jre(version), waiting_classes, *options) as jvm,
        closing(CollectionLog(jvm.pid)) as log,
    ):
        log.poll()
        assert log.known_since is not None
        assert log.take() == []
        before = time.monotonic()
        collect(jvm.pid)
        time.sleep(0.3)  # the poll comes late; the JVM's own time of the collection counts
        log.poll()
        rows = log.take()
        after = time.monotonic()
        heaps = log.take_heaps()
        assert log.take_heaps() == []
    whole = [row for row in rows if row[0] == kind]
    assert whole, rows
    # An idle JVM of a few classes.
    (at, used) = heaps[-1]
    assert whole[-1][2] <= at <= after
    assert 100_000 < used < 32 << 20
    for _, began, ended, count in whole:
        assert before - 0.1 <= began <= ended <= after - 0.3
        assert count >= 1


@pytest.mark.parametrize(
    ("version", "options", "kind"),
    [
        (17, ("-XX:+UseZGC",), "concurrent"),
        (21, ("-XX:+UseZGC", "-XX:+ZGenerational"), "full"),
        (25, ("-XX:+UseZGC",), "full"),
        (11, ("-XX:+UseShenandoahGC",), "concurrent"),
        (17, ("-XX:+UseShenandoahGC",), "concurrent"),
        (25, ("-XX:+UseShenandoahGC", "-XX:ShenandoahGCMode=generational"), "full"),
    ],
)
def test_a_cycle_beside_the_program_is_one_collection(
    version: int, options: tuple[str, ...], kind: str, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """The JVM counts its pauses or phases; a poll sees the first ones before the cycle has ended."""
    flags = ("-XX:-UseSerialGC", "-XX:+UnlockExperimentalVMOptions", *options)
    with waiting_jvm(jre(version), waiting_classes, *flags) as jvm, closing(CollectionLog(jvm.pid)) as log:
        log.poll()
        spans = []
        for _ in range(2):
            before = time.monotonic()
            with ThreadPoolExecutor(1) as executor:
                asked = executor.submit(collect, jvm.pid)
                while not asked.done():
                    log.poll()
            time.sleep(0.1)
            log.poll()
            spans.append((before, time.monotonic()))
        rows = [row for row in log.take() if row[0] != "young"]
        heaps = log.take_heaps()
    assert [(row[0], row[3]) for row in rows] == [(kind, 1)] * 4, "two for each request"
    for number, (_, began, ended, _) in enumerate(rows):
        before, after = spans[number // 2]
        assert before - 0.1 <= began < ended <= after
    # Shenandoah fills its counter of the heap from time to time, at first some time after the start.
    least = 4 if "-XX:+UseZGC" in options else 1
    assert least <= len(heaps) <= 4, "one reading for each cycle, at rest"


def test_without_a_rest_so_many_pauses_have_a_whole_cycle() -> None:
    cycles = Cycles.of("Z concurrent cycle pauses")
    assert cycles
    cycles.add(1.0, 1.1, 1)
    assert cycles.take(at_rest=False) is None
    cycles.add(2.0, 2.1, 3)
    assert cycles.take(at_rest=False) is None, "the first may be the last of its cycle, and marking may go on"
    cycles.add(3.0, 3.1, 1)
    assert cycles.take(at_rest=False) == (1.0, 3.1)
    cycles.add(4.0, 4.1, 3)
    assert cycles.take(at_rest=True) == (4.0, 4.1)
    assert cycles.take(at_rest=True) is None


def test_a_pause_more_belongs_to_the_cycle_and_a_cycle_without_begin_is_none() -> None:
    cycles = Cycles.of("ZGC major collection pauses")
    assert cycles
    cycles.add(0.5, 0.6, 2)
    assert cycles.take(at_rest=True) is None, "it began before the first poll"
    cycles.add(1.0, 1.1, 5)
    cycles.add(2.0, 2.1, 1)
    assert cycles.take(at_rest=True) == (1.0, 2.1)


@pytest.mark.parametrize("name", ["", "copy", "G1 stop-the-world phases", "ZGC new pauses"])
def test_collections_that_the_jvm_counts_need_no_cycles(name: str) -> None:
    assert Cycles.of(name) is None


def test_only_some_causes_collect_all_generations() -> None:
    generational = "-XX:ShenandoahGCMode=generational"
    major, single = Cycles.of("ZGC major collection pauses"), Cycles.of("Z concurrent cycle pauses")
    young, all_of_it = Cycles.of("Shenandoah full", generational), Cycles.of("Shenandoah full")
    assert major
    assert major.of_all("System.gc()")
    assert not major.of_all("Proactive")
    assert not major.of_all("Allocation Stall")
    assert single
    assert not single.of_all("System.gc()")
    assert young
    assert young.of_all("Diagnostic Command")
    assert not young.of_all("Concurrent GC")
    assert all_of_it
    assert not all_of_it.of_all("Diagnostic Command"), "every cycle is over the whole heap"


class Counters:
    """A JVM's performance data with one collector, as a poll reads it; values may change in between."""

    NAMES = ("invocations", "lastEntryTime", "lastExitTime")

    def __init__(self) -> None:
        self.count, self.entry, self.exit, self.used = 3, 1.0, 1.5, 1 << 20
        self.eden, self.room = 3 << 20, 64 << 20

    def read(self, place: int, size: int) -> bytes:
        values = (self.count, int(self.entry * 1e9), int(self.exit * 1e9), self.used, self.eden, self.room)
        return struct.pack("<6q", *values)[place : place + size]

    def close(self) -> None:
        pass


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    """The clock of the JVM is that of time.monotonic()."""
    made = Counters()
    monkeypatch.setattr(time, "time", time.monotonic)
    return made


def following(counters: Counters) -> CollectionLog:
    log = CollectionLog(1)
    log._source = counters  # type: ignore[assignment]
    log._collectors = [_Collector("full", counters.count, 0, 8, 16, None)]
    log._spaces, log._size, log._frequency, log._vm_began = [24], 48, 1_000_000_000, 1e-9
    log._eden, log._old = [32], [(24, 40)]
    return log


def collected(counters: Counters, log: CollectionLog) -> int:
    """The heap in use after one more collection."""
    log.poll()
    counters.count += 1
    counters.entry = counters.exit = time.monotonic()
    log.poll()
    ((_, used),) = log.take_heaps()
    return used


def test_what_a_full_collection_leaves_in_eden_counts(counters: Counters) -> None:
    """Objects stay there where the old generation has no room for them, as before an OutOfMemoryError."""
    log = following(counters)
    assert collected(counters, log) == counters.used
    counters.used = 63 << 20
    assert collected(counters, log) == counters.used + counters.eden
    log._collectors[0].kind = "young"
    assert collected(counters, log) == counters.used


def test_of_collections_that_follow_at_once_those_that_ended_are_rows(counters: Counters) -> None:
    """Before an OutOfMemoryError hardly a poll finds no collection that runs."""
    log = following(counters)
    log.poll()
    first = time.monotonic()
    for _ in range(3):
        counters.count += 1
        counters.entry = time.monotonic()
        log.poll()
        counters.exit = time.monotonic()
    rows = log.take()
    assert [(kind, count) for kind, _, _, count in rows] == [("full", 1), ("full", 1)]
    for _, began, ended, _ in rows:
        assert first - 0.1 <= began <= ended <= time.monotonic()
    log.poll()
    assert sum(count for _, _, _, count in log.take()) == 1


def test_a_collection_is_a_row_once_it_has_ended(counters: Counters) -> None:
    log = following(counters)
    log.poll()
    began = time.monotonic()
    counters.count, counters.entry = 4, began
    for _ in range(3):
        log.poll()
        assert log.take() == []
        assert log.take_heaps() == []
    counters.exit = time.monotonic()
    log.poll()
    ((kind, row_began, row_ended, count),) = log.take()
    assert (kind, count) == ("full", 1)
    assert row_began == pytest.approx(began, abs=0.01)
    assert row_ended == pytest.approx(counters.exit, abs=0.01)
    ((_, used),) = log.take_heaps()
    assert used == counters.used


def test_a_clock_that_jumped_moves_no_collection_before_the_last_poll(counters: Counters) -> None:
    """The JVM's clock stood still for two hours of the wall clock, as after a host that slept."""
    log = following(counters)
    log.poll()
    polled = time.monotonic()
    counters.count, counters.entry, counters.exit = 4, polled - 7200, polled - 7199
    log.poll()
    ((_, began, ended, _),) = log.take()
    assert polled - 0.1 <= began <= ended <= time.monotonic()


def test_many_collections_between_two_takings_become_few_rows() -> None:
    log = CollectionLog(1)
    log._rows = [("young", float(n), n + 0.5, 1) for n in range(100)] + [("full", 99.6, 99.9, 1)]
    rows = log.take()
    assert sum(count for kind, _, _, count in rows if kind == "young") == 100
    assert len(rows) <= 9
    assert rows[-1][0] == "full"
    assert [row[1] for row in rows[:-1]] == sorted(row[1] for row in rows[:-1])
    assert log.take() == []


def test_a_program_that_is_no_jvm_has_none() -> None:
    with subprocess.Popen(["sleep", "60"]) as process, closing(CollectionLog(process.pid)) as log:
        log.poll()
        assert log.known_since is None
        process.kill()


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("handles")
    source = JAVA / "Handles.java"
    command = [str(jdk / "bin" / "javac"), "-nowarn", "--release", "11", "-d", str(folder), str(source)]
    # No --release contains sun.misc.Unsafe.
    command[2:4] = ["-source", "11", "-target", "11"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@contextmanager
def handles(java: Path, classes: Path, every: int, garbage: float) -> Iterator[int]:
    """A JVM whose young generation of 8 MB fills by so much garbage a second; its PID."""
    options = ["-Xmx64m", "-Xmn8m", "-XX:+UseSerialGC"]
    command = [str(java), *options, "-cp", str(classes), "Handles", str(every), str(int(garbage))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate(timeout=30)


def judged(
    java: Path, classes: Path, output: Path, every: int, garbage: float, seconds: int
) -> dict[str, Any]:
    """The suspect of the handles."""
    with handles(java, classes, every, garbage) as pid:
        options = ["--duration", f"{seconds}s", "--interval", "32KiB", "-o", str(output)]
        done = subprocess.run(
            offheap("attach", str(pid), *options), capture_output=True, text=True, timeout=seconds + 60
        )
        assert done.returncode == 0, done.stderr
    asked = warm("leaks", output, "--all", "--json")
    found = [
        suspect
        for suspect in json.loads(asked.stdout)["suspects"]
        if any("Handles.open" in frame["name"] for frame in suspect["stack"])
    ]
    return max(found, key=lambda suspect: suspect["allocated_bytes"]["estimate"])


def test_a_finalizer_of_any_class_waits_for_a_collection(
    jre: Callable[[int], Path], classes: Path, tmp_path: Path, probe_library: Path
) -> None:
    """3.2 MB/s that no collection has freed yet: the class is not one of the JDK."""
    output = tmp_path / "waits.offheap"
    suspect = judged(jre(21), classes, output, 0, 0, 14)
    ran = load(output).collections
    assert ran is not None
    if ran.counts.sum():
        needs.skip("a JVM that does not collect for 14 s", "run the test alone")
    assert suspect["verdict"] == "growing", suspect
    assert suspect["waits_for_gc"]
    assert "no collection ran that could have freed it" in suspect["why"]


@pytest.mark.parametrize(("every", "verdicts"), [(0, ("steady", "freed")), (4, ("leak",))])
def test_what_collections_free_in_batches_hides_no_leak_and_is_none(
    every: int,
    verdicts: tuple[str, ...],
    jre: Callable[[int], Path],
    classes: Path,
    tmp_path: Path,
    probe_library: Path,
) -> None:
    """A collection about every five seconds frees all, or three of four."""
    output = tmp_path / "batches.offheap"
    suspect = judged(jre(17), classes, output, every, 1.4e6, 40)
    ran = load(output).collections
    assert ran is not None
    kinds = Counter(ran.kinds)
    assert kinds["young"] >= 4, kinds
    assert suspect["verdict"] in verdicts, suspect
    if every:
        assert "what survives them grows" in suspect["why"]
        growth = suspect["growth_bytes_per_second"]
        assert growth["low"] <= 50 * 65536 / every <= growth["high"] * 1.2
