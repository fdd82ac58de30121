"""Java objects of a live file become a recording of their own, in every way that a recording is read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.recordings.live_file_writer import INTERVAL, LiveFileWriter, hook, java, java_class
from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.contract import JavaHeapState, Loss, Mode, Section, StackKind, State
from offheap.probe.live_files.live_file import LiveFile
from offheap.recording import java_objects, load
from offheap.recording.capture.info import NOT_FOLLOWED
from offheap.recording.capture.live_source import FollowedLiveFile
from offheap.recording.capture.recorder import Progress, record
from offheap.recording.model import JAVA, LIVE, SERIES, Frame, Recording

KIB = 1 << 10
OBJECT_INTERVAL = 64 * KIB


def p(size: int, interval: int) -> float:
    return float(-np.expm1(-size / interval))


def example(mode: Mode = Mode.SAMPLED) -> LiveFileWriter:
    """Two blocks of one stack, three objects of two stacks, one of them thinned once."""
    writer = LiveFileWriter(mode=mode, losses={Loss.LOST_OBJECTS: 4})
    writer.follow_objects(
        OBJECT_INTERVAL,
        code=contract.JAVA_CODE + 1,
        followed=3,
        most=16384,
        thinned=1,
        collections=12,
        collected=250,
        swept_ns=writer.start_monotonic_ns + 3 * 10**9,
        spent_ns=5 * 10**6,
    )
    method = java(writer.method("Lcom/example/Shop;", "open", "Shop.java", ((0, 10), (5, 11))), 6)
    block = writer.stack(hook("malloc"), method)
    text = writer.stack(java_class(writer.string("Ljava/lang/String;")), method, kind=StackKind.JAVA)
    array = writer.stack(java_class(writer.string("[B")), method, kind=StackKind.JAVA)
    writer.blocks([0x1000, 0x2000], [100, 200], [block] * 2, [10, 20], [0, 0])
    writer.objects([24, 4000], [text, array], [100, 200])
    writer.objects([4000], [array], [300], code=contract.JAVA_CODE + 1)
    writer.count(block, 2, 2, 300)
    writer.count(text, 3, 8000.5, 192_000)
    writer.count(array, 9, 40, 160_000)
    return writer


def written(writer: LiveFileWriter, folder: Path) -> Path:
    return writer.write(folder / "offheap-1-0000000000000000.live")


def ended(writer: LiveFileWriter) -> LiveFileWriter:
    writer.state = State.STOPPED
    writer.stop_monotonic_ns = time.monotonic_ns()
    return writer


def bare(folder: Path) -> Recording:
    return load(written(example(), folder))


def finished(folder: Path) -> Recording:
    record(written(ended(example()), folder), folder / "a.offheap")
    return load(folder / "a.offheap")


def journal(folder: Path) -> Recording:
    """As a killed recorder leaves it."""

    class Killed(BaseException):
        pass

    def kill(_progress: Progress) -> None:
        raise Killed

    with contextlib.suppress(Killed):
        record(written(example(), folder), folder / "a.offheap", on_progress=kill)
    assert (folder / "a.offheap" / "journal").is_dir()
    return load(folder / "a.offheap")


def followed(folder: Path) -> Recording:
    with contextlib.closing(FollowedLiveFile(written(example(), folder))) as source:
        update = source.update()
        assert update
        assert sorted(update.live["size"].tolist()) == [100, 200]
        assert update.series["stack"].tolist() == [1]
        return source.recording()


WAYS = [bare, finished, journal, followed]


@pytest.mark.parametrize("read", WAYS)
def test_java_objects_are_a_recording_of_their_own(read: Callable[[Path], Recording], tmp_path: Path) -> None:
    recording = read(tmp_path)
    objects = recording.java
    assert objects
    assert objects.java is None
    assert sorted(recording.live["size"].tolist()) == [100, 200]
    assert set(recording.series["stack"].tolist()) <= {0, 1}
    assert recording.process["live_blocks"][-1] == pytest.approx(1 / p(100, INTERVAL) + 1 / p(200, INTERVAL))
    assert recording.process["allocated_bytes"][-1] == 300
    assert recording.info.interval_bytes == INTERVAL

    assert sorted(objects.live["size"].tolist()) == [24, 4000, 4000]
    assert (objects.stack_kinds[objects.live["stack"]] == JAVA).all()
    chances = [p(24, OBJECT_INTERVAL), p(4000, OBJECT_INTERVAL), p(4000, 2 * OBJECT_INTERVAL)]
    assert sorted(objects.live["probability"].tolist()) == pytest.approx(sorted(chances))
    assert sorted(objects.live["birth"].tolist()) == [1.0, 2.0, 3.0]
    assert set(objects.series["stack"].tolist()) == {2, 3}
    assert objects.process["live_blocks"][-1] == pytest.approx(sum(1 / chance for chance in chances))
    assert objects.process["live_bytes"][-1] == pytest.approx(
        24 / chances[0] + 4000 / chances[1] + 4000 / chances[2]
    )
    assert objects.process["allocated_bytes"][-1] == 352_000
    assert (objects.process["time"] == recording.process["time"]).all()
    assert (objects.process["rss_bytes"] == recording.process["rss_bytes"]).all()
    assert not len(objects.owners.names)
    assert objects.collections == recording.collections

    info = objects.info
    assert (info.mode, info.interval_bytes, info.budget) == ("sampled", 2 * OBJECT_INTERVAL, None)
    assert info.java_heap == recording.info.java_heap
    assert info.java_heap
    assert dataclasses.astuple(info.java_heap) == pytest.approx(
        ("followed", 2 * OBJECT_INTERVAL, 3, 16384, 1, 12, 2.5, 3.0, 0.005)
    )
    assert info.lost == {"lost_objects": 4}

    where = Frame("com.example.Shop.open", "java", "", "Shop.java", 11)
    assert objects.stack(2) == [Frame("java.lang.String", "class", "java.lang.String"), where]
    assert objects.stack(3) == [Frame("byte[]", "class", "byte"), where]


def test_a_recording_has_both_kinds_in_its_tables(tmp_path: Path) -> None:
    finished(tmp_path)
    meta = json.loads((tmp_path / "a.offheap" / "meta.json").read_text())
    assert meta["java_heap"]["state"] == "followed"
    assert meta["java_heap"]["most"] == 16384
    meta["java_heap"] = None
    (tmp_path / "a.offheap" / "meta.json").write_text(json.dumps(meta))
    recording = load(tmp_path / "a.offheap")
    assert recording.java is None
    assert sorted(recording.live["size"].tolist()) == [100, 200]


def test_objects_beside_exact_blocks_are_estimates(tmp_path: Path) -> None:
    recording = load(written(example(Mode.EXACT), tmp_path))
    assert recording.java
    assert recording.info.mode == "exact"
    assert recording.live["probability"].tolist() == [1.0, 1.0]
    assert recording.series["allocated_blocks"].tolist() == [2]
    allocated = dict(
        zip(recording.java.series["stack"], recording.java.series["allocated_blocks"], strict=True)
    )
    assert allocated == {2: 8000.5, 3: 40}
    assert recording.java.info.mode == "sampled"


def test_the_process_over_time_is_the_sum_of_its_stacks(tmp_path: Path) -> None:
    """A stack keeps its values until its next row, also where other stacks change."""
    writer = example()
    path = written(writer, tmp_path)
    array = 3
    snapshots = 0

    def grow(_progress: Progress) -> None:
        nonlocal snapshots
        snapshots += 1
        writer.objects([1000 * snapshots], [array], [400 + snapshots])
        writer.count(array, 1, 1, 1000)
        if snapshots == 3:
            ended(writer)
        written(writer, tmp_path)

    record(path, tmp_path / "b.offheap", every=0.01, on_progress=grow)
    objects = load(tmp_path / "b.offheap").java
    assert objects
    blocks = [sum(1 / p(size, OBJECT_INTERVAL) for size in sizes) for sizes in ((), (1000,), (1000, 2000))]
    first = 1 / p(24, OBJECT_INTERVAL) + 1 / p(4000, OBJECT_INTERVAL) + 1 / p(4000, 2 * OBJECT_INTERVAL)
    assert objects.process["live_blocks"][:3].tolist() == pytest.approx([first + more for more in blocks])
    assert objects.process["allocated_bytes"][:3].tolist() == pytest.approx([352_000, 353_000, 354_000])


@pytest.mark.parametrize(
    ("signature", "name", "module"),
    [
        ("[[I", "int[][]", "int"),
        ("[Ljava/util/Map$Entry;", "java.util.Map$Entry[]", "java.util.Map$Entry"),
        (
            "Lcom/example/Main$$Lambda.0x00007f1234567890;",
            "com.example.Main$$Lambda",
            "com.example.Main$$Lambda",
        ),
        ("Lcom/example/Main$$Lambda$14/566891196;", "com.example.Main$$Lambda", "com.example.Main$$Lambda"),
        ("Lcom/example/Größe;", "com.example.Größe", "com.example.Größe"),
        ("", "unknown class", ""),
    ],
)
def test_classes_have_readable_names(signature: str, name: str, module: str, tmp_path: Path) -> None:
    writer = example()
    stack = writer.stack(java_class(writer.string(signature)), kind=StackKind.JAVA)
    recording = load(written(writer, tmp_path))
    assert recording.stack(stack) == [Frame(name, "class", module)]


def test_a_signature_outside_of_the_file_is_no_name(tmp_path: Path) -> None:
    writer = example()
    stack = writer.stack(java_class(1 << 47), kind=StackKind.JAVA)
    assert load(written(writer, tmp_path)).stack(stack) == [Frame("unknown class", "class")]


def test_an_object_whose_stack_was_lost_is_no_block(tmp_path: Path) -> None:
    writer = example()
    writer.objects([1 << 20], [0], [100])
    writer.objects([1 << 20], [1 << 30], [100])
    recording = load(written(writer, tmp_path))
    assert recording.java
    assert sorted(recording.live["size"].tolist()) == [100, 200]
    assert len(recording.java.live) == 3


@pytest.mark.parametrize("state", [JavaHeapState.REQUESTED, JavaHeapState.TAKEN, JavaHeapState.UNAVAILABLE])
def test_a_recording_says_that_it_follows_nothing(state: JavaHeapState, tmp_path: Path) -> None:
    writer = LiveFileWriter(header={"java_heap": state})
    record(written(ended(writer), tmp_path), tmp_path / "a.offheap")
    recording = load(tmp_path / "a.offheap")
    assert recording.java is None
    assert recording.info.java_heap
    said = recording.info.java_heap.state
    assert said == state.name.lower()
    assert [line for line in recording.info.coverage if "Java objects" in line] == [
        words for name, words in NOT_FOLLOWED.items() if name == said
    ]


def test_without_the_option_nothing_is_said(tmp_path: Path) -> None:
    recording = load(written(LiveFileWriter(), tmp_path))
    assert (recording.java, recording.info.java_heap) == (None, None)


def test_a_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    """Those bytes of its header meant nothing."""
    writer = LiveFileWriter(header={"version": 2, "java_heap": 77})
    writer.block(0x1000, 100, writer.stack(hook("malloc")))
    recording = load(written(writer, tmp_path))
    assert (recording.java, recording.info.java_heap) == (None, None)
    assert recording.info.interval_bytes == INTERVAL


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"java_heap": 5}, "no state 5 of the Java heap"),
        ({"java_code": contract.JAVA_CODE - 1}, "no interval 223 of Java objects"),
        ({"java_code": 256}, "no interval 256 of Java objects"),
        ({"java_code": 1 << 31}, "of Java objects"),
        ({"java_most": (1 << 22) + 1}, "it follows 4194305 Java objects"),
        ({"java_followed": 1 << 31}, "it follows 2147483648 Java objects"),
    ],
)
def test_a_damaged_header_is_refused(changes: dict[str, int], what: str, tmp_path: Path) -> None:
    writer = example()
    writer.header |= changes
    with pytest.raises(UserError, match=what):
        load(written(writer, tmp_path))


@pytest.mark.parametrize("code", [0, 1, contract.JAVA_CODE - 1, 255])
def test_an_object_without_an_interval_is_refused(code: int, tmp_path: Path) -> None:
    writer = example()
    writer.intervals[255] = 0
    writer.objects([100], [2], [100], code=code)
    with pytest.raises(UserError, match="a Java object has no interval"):
        load(written(writer, tmp_path))


def test_an_interval_that_is_newer_than_the_header_read_is_read(tmp_path: Path) -> None:
    """Followed objects may be thinned between a reader's copies of the header and of the objects."""
    writer = example()
    writer.intervals[230] = 0
    path = written(writer, tmp_path)
    with LiveFile(path) as source:
        writer.objects([100], [2], [100], code=230)
        writer.intervals[230] = 1 << 22
        # No more than before: the sections of the header that was read are those of the file.
        assert len(writer.keys) <= 8
        written(writer, tmp_path)
        live = source.live()
    assert live["probability"].min() == pytest.approx(p(100, 1 << 22))


def test_the_state_of_an_interval_of_native_blocks_is_not_that_of_objects(tmp_path: Path) -> None:
    writer = LiveFileWriter()
    writer.follow_objects(1 << 30)
    assert load(written(writer, tmp_path)).info.interval_bytes == INTERVAL


def test_a_budget_under_an_interval_of_objects_is_refused(tmp_path: Path) -> None:
    writer = example()
    writer.header |= {"budget_ppm": 10_000, "interval_code": 1, "greatest_code": 230, "least_code": 1}
    with pytest.raises(UserError, match="no interval"):
        load(written(writer, tmp_path))


def test_flipped_bytes_of_the_java_heap_end_no_reader(tmp_path: Path) -> None:
    good = bytearray(example().bytes())
    assert contract.HEADER.fields
    first = contract.HEADER.fields["java_heap"][1]
    sections = np.frombuffer(bytes(good[: contract.HEADER_BYTES]), contract.HEADER, 1)[0]["sections"]
    places = [*range(first, first + 48)]
    for section in (Section.KEYS, Section.VALUES, Section.STACKS, Section.FRAMES, Section.COUNTERS):
        its = sections[section]
        places += range(int(its["offset"]), int(its["offset"]) + int(its["used"]) * int(its["row_bytes"]))
    path = tmp_path / "offheap-1-0000000000000000.live"
    read = 0
    for at in places[:: max(1, len(places) // 150)]:
        for bit in (1, 128):
            bad = bytearray(good)
            bad[at] ^= bit
            path.write_bytes(bad)
            try:
                recording = load(path)
            except UserError:
                continue
            read += 1
            assert (recording.live["probability"] > 0).all()
            assert np.isfinite(recording.process["live_bytes"]).all()
            if recording.java:
                assert np.isfinite(recording.java.process["live_bytes"]).all()
                assert (recording.java.live["probability"] > 0).all()
    assert read


@pytest.mark.parametrize("sizes", [(24,), (8000,), (8000, 10_000), (8000, 24), (50_000, 200), (200_000,)])
def test_the_sampler_of_jdk_11(sizes: tuple[int, ...]) -> None:
    """GIVEN ways to the next sample that the rest of the last object shortens THEN estimates are true."""
    interval, count = 16 * KIB, 40_000
    random = np.random.default_rng(11)
    ends = np.cumsum(np.tile(sizes, count // len(sizes)))
    objects = np.tile(sizes, count // len(sizes))
    at, taken = random.exponential(interval), []
    while at < ends[-1]:
        number = int(np.searchsorted(ends, at))
        taken.append(number)
        rest, way = ends[number] - at, random.exponential(interval)
        at = ends[number] + (way - rest if way > rest else way)
    size = objects[taken]
    live = np.zeros(len(taken), LIVE)
    live["size"], live["probability"] = size, -np.expm1(-size / interval)
    live["stack"] = size
    series = np.zeros(len(sizes), SERIES)
    for row, one in zip(series, sorted(sizes), strict=True):
        weights = 1 / live["probability"][size == one]
        row["stack"], row["samples"] = one, len(weights)
        row["live_blocks"] = row["allocated_blocks"] = weights.sum()
        row["live_bytes"] = row["allocated_bytes"] = weights.sum() * one
    alive, stacks = java_objects.less_often(live, series)
    truth = float(objects.sum())
    held = float((alive["size"] / alive["probability"]).sum())
    # 40,000 objects are at least 58 samples; an excess that falls on small objects behind large ones stays.
    chance = 4 / len(taken) ** 0.5
    assert held == pytest.approx(truth, rel=chance + 0.04)
    assert stacks["live_bytes"].sum() == pytest.approx(held, rel=1e-6)
    raw = float((size / live["probability"]).sum())
    assert raw >= held
    if sizes == (8000, 10_000):
        assert raw > 1.18 * truth, "without the correction"
