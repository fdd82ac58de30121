"""JFR recordings of native memory: async-profiler's, and the JDK's of Native Memory Tracking."""

from __future__ import annotations

import gzip
import math
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness import needs
from harness.paths import ROOT
from harness.peers.peer_reports import CONVERTER
from harness.plugins.rotation import seed
from harness.recordings import jfr_files
from harness.recordings.imported_profiles import SAMPLES, check, held_by, last, outcome, stacks_of
from harness.recordings.jfr_files import Event, chunk
from offheap.analysis.leaks.leaks import suspects
from offheap.errors import UserError
from offheap.formats.imported import recorded
from offheap.formats.imported.jfr import blocks_over_time, order, recording
from offheap.formats.imported.jfr.file import event_places
from offheap.formats.imported.jfr.file.varints import Window
from offheap.recording import load

SAMPLE = SAMPLES / "async-profiler.jfr.gz"
TRACKING = SAMPLES / "nmt-25.jfr.gz"
SAMPLED = SAMPLES / "async-profiler-sampled.jfr.gz"
# Figures of async-profiler's own converter, --nativemem --leak --tail 0, with and without --total.
BLOCKS, BYTES, INFLATER_BLOCKS, INFLATER_BYTES = 1319, 595_665, 120, 436_320
FUZZ = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def jfr(folder: Path, *chunks: bytes) -> Path:
    path = folder / "x.jfr"
    path.write_bytes(b"".join(chunks))
    return path


def test_what_async_profiler_s_converter_says_is_live() -> None:
    """GIVEN a program that forgets 60 Inflaters THEN blocks and bytes are the converter's, with births."""
    profile = check(recording.read([SAMPLE]))
    assert len(profile.live) == BLOCKS
    assert profile.live["size"].sum() == BYTES
    assert held_by(profile, "java.util.zip.Inflater.init") == (INFLATER_BLOCKS, INFLATER_BYTES)
    assert profile.births
    births = profile.live["birth"]
    assert 1.0 < births.max() < profile.process["time"][-1] + 1e-9 < 2.0
    assert profile.program == "Forget"
    assert profile.pid > 0
    assert profile.start == pytest.approx(1_795_611_675, abs=1)
    assert "DestroyJavaVM" in profile.threads
    assert profile.live["thread"].max() < len(profile.threads)


def test_frames_are_java_s_and_the_libraries() -> None:
    profile = check(recording.read([SAMPLE]))
    stack = next(
        frames
        for number, frames in stacks_of(profile, "java.util.zip.Inflater.init")
        if last(profile).get(number, (0, 0))[1] > 400_000
    )
    assert [(frame.name, frame.kind) for frame in stack[:3]] == [
        ("inflateInit2_", "native"),
        ("Java_java_util_zip_Inflater_init", "native"),
        ("java.util.zip.Inflater.init", "java"),
    ]
    assert stack[1].module == "libzip.so"
    assert ("Forget.upload", 3) in [(frame.name, frame.line) for frame in stack]
    assert not any(frame.module == "libasyncProfiler.so" for frame in stack)
    assert any(frame.kind == "jvm" for frame in profile.frames)


def test_samples_stand_for_what_was_not_sampled() -> None:
    """GIVEN the same program, an allocation sampled each 4 KiB THEN small blocks are scaled."""
    profile = check(recording.read([SAMPLED]))
    assert profile.interval_bytes == 4096
    assert profile.live["probability"].min() < 0.1
    weights = profile.live["size"] / profile.live["probability"]
    assert weights.min() == pytest.approx(4096)
    # 7,160 bytes each: every one was sampled.
    assert held_by(profile, "inflateInit2_") == (60, 60 * 7160)
    small = profile.series[profile.series["live_blocks_variance"] > 0]
    assert len(small)
    assert any("sampled an allocation each 4.0 KiB" in sentence for sentence in profile.lacks)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Live bytes and blocks of the sample by async-profiler's converter."""
    java = shutil.which("java")
    jar = ROOT / "build" / "peers" / f"{CONVERTER.split(':')[1]}-{CONVERTER.split(':')[2]}.jar"
    if java is None or not jar.exists():
        needs.skip("async-profiler's converter", "make bench BENCH_ARGS=--quick")
    folder = tmp_path_factory.mktemp("converted")
    (folder / "x.jfr").write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    found = {}
    for name, option in (("blocks", []), ("bytes", ["--total"])):
        words = ["--nativemem", "--leak", "--tail", "0", *option, "-o", "collapsed", "x.jfr", name]
        subprocess.run([java, "-jar", jar, *words], cwd=folder, check=True, capture_output=True, timeout=60)
        lines = (folder / name).read_text().splitlines()
        found[name] = sum(float(line.rpartition(" ")[2]) for line in lines)
    return found


def test_the_converter_itself(converted: dict[str, float]) -> None:
    assert converted == {"blocks": BLOCKS, "bytes": BYTES}


def test_native_memory_tracking_of_the_jdk() -> None:
    """GIVEN a JVM that holds 8 MiB of direct buffers THEN a moment a reading, with its category and RSS."""
    profile = check(recording.read([TRACKING]))
    blocks, size = held_by(profile, "NMT category Other")
    assert blocks == 1
    assert 8 << 20 <= size < 9 << 20
    assert held_by(profile, "NMT category Java Heap") == (1, 32 << 20)
    assert len(profile.process) == 4
    assert np.diff(profile.process["time"]) == pytest.approx(0.5, abs=0.1)
    assert profile.process["rss_bytes"][-1] > 10 << 20
    assert (profile.program, profile.births) == ("Hold", False)


def test_chunks_and_files_are_one_time_line(tmp_path: Path) -> None:
    """GIVEN a block that a later chunk frees, in one file or in two THEN it is not live at the end."""
    first = chunk([Event(5, 0x7F0000001000, 100), Event(7, 0x7F0000002000, 50)], duration=2 * 10**9)
    later = chunk(
        [Event(3, 0x7F0000001000), Event(4, 0x7F0000003000, 30, 2)],
        stacks=2,
        start=1_700_000_002 * 10**9,
        ticks=1 << 60,
        rss=[(0, 1 << 20), (10**9, 2 << 20)],
    )
    both = check(recording.read([jfr(tmp_path, first, later)]))
    assert sorted(both.live["size"].tolist()) == [30, 50]
    assert held_by(both, "f2") == (1, 30)
    assert both.live["birth"].tolist() == pytest.approx([7e-9, 2 + 4e-9])
    assert both.process["rss_bytes"][-1] == 1 << 20
    one, other = tmp_path / "1.jfr", tmp_path / "2.jfr"
    one.write_bytes(first)
    other.write_bytes(later)
    assert recording.read([other, one]).series.tolist() == both.series.tolist()


def test_events_count_in_the_order_of_time(tmp_path: Path) -> None:
    """GIVEN buffers that were written the later one first THEN the free counts after its allocation."""
    path = jfr(tmp_path, chunk([Event(9, 0x1000), Event(8, 0x1000, 10), Event(5, 0x1000, 20)]))
    profile = check(recording.read([path]))
    assert len(profile.live) == 0
    assert profile.series["allocated_blocks"].max() == 2
    assert any("1 blocks came at addresses that were live" in sentence for sentence in profile.lacks)


def test_without_frees_nothing_is_a_leak(tmp_path: Path) -> None:
    profile = check(recording.read([jfr(tmp_path, chunk([Event(1, 0x1000, 10)]))]))
    assert not profile.births
    assert recording.NO_FREES in profile.lacks


def test_what_is_kept_for_a_minute_is_a_leak(tmp_path: Path) -> None:
    """GIVEN two blocks each 100 ms, one freed THEN the site that keeps its blocks is a leak."""
    kept = [Event(at * 10**8, 0x100000 + 16 * at, 4096, 1) for at in range(600)]
    used = [Event(at * 10**8, 0x200000, 4096, 2) for at in range(600)]
    freed = [Event(at * 10**8 + 10**7, 0x200000) for at in range(600)]
    path = jfr(tmp_path, chunk([*kept, *used, *freed], stacks=2, duration=60 * 10**9))
    recorded.write(check(recording.read([path])), tmp_path / "app.offheap", "x")
    imported = load(tmp_path / "app.offheap")
    assert imported.info.process_age == math.inf
    assert {one.blamed.name: one.verdict for one in suspects(imported)} == {"f1": "leak", "f2": "freed"}


def test_a_chunk_that_was_not_ended_is_left_out(tmp_path: Path) -> None:
    whole = chunk([Event(1, 0x1000, 10)])
    open_one = bytearray(chunk([Event(1, 0x2000, 10)]))
    open_one[8:32] = (1 << 30).to_bytes(8, "big") + bytes(16)
    profile = check(recording.read([jfr(tmp_path, whole, bytes(open_one))]))
    assert len(profile.live) == 1
    assert any("ends with a chunk that is not whole" in sentence for sentence in profile.lacks)
    with pytest.raises(UserError, match="the file has no complete chunk"):
        recording.read([jfr(tmp_path, bytes(open_one))])


def test_what_is_not_of_native_memory_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no events of native memory or live Java objects; it has jdk\.Res"):
        recording.read([jfr(tmp_path, chunk([], rss=[(1, 1), (2, 2)]))])


def test_stacks_that_are_missing_have_a_name(tmp_path: Path) -> None:
    profile = check(recording.read([jfr(tmp_path, chunk([Event(1, 0x1000, 10)], constants=False))]))
    assert held_by(profile, "unknown method") == (1, 10)


def test_long_recordings_have_bounded_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN more rows than are kept THEN snapshots become fewer, and their last values stay."""
    events = [Event(at * 10**7, 0x1000 + 16 * at, 1 + at % 7, 1 + at % 5) for at in range(1000)]
    path = jfr(tmp_path, chunk(events, stacks=5, duration=10**10))
    whole = check(recording.read([path]))
    monkeypatch.setattr(blocks_over_time, "_MOST_ROWS", 100)
    fewer = check(recording.read([path]))
    assert len(fewer.series) <= 110 < len(whole.series)
    assert last(fewer) == last(whole)


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 400), st.sampled_from([0, 1, 2, 3, 1 << 40, (1 << 47) - 16]), st.integers(0, 90)
    ),
    max_size=60,
)


@FUZZ
@example(events=[(0, 1, 0), (0, 1, 1)], chunks=1, slice_=1, interval=0)  # freed and taken again within a tick
@given(events=EVENTS, chunks=st.integers(1, 3), slice_=st.integers(1, 9), interval=st.sampled_from([0, 50]))
def test_any_events_as_one_by_one(
    events: list[tuple[int, int, int]],
    chunks: int,
    slice_: int,
    interval: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GIVEN any events, in chunks and slices of any size THEN the live blocks are those of a dictionary."""
    monkeypatch.setattr("offheap.formats.imported.jfr.native_memory._SLICE", slice_)
    written = []
    live: dict[int, int] = {}
    for number in range(chunks):
        part = [Event(time, address, size, 1 + size % 3) for time, address, size in events[number::chunks]]
        begin = 1_700_000_000 * 10**9 + number * 10**6
        written.append(
            chunk(part, stacks=3, start=begin, duration=10**6, ticks=number << 50, interval=interval)
        )
        for one in sorted(part, key=lambda event: event.time):
            live.pop(one.address, None)
            if one.size:
                live[one.address] = one.size
    if not any(size for _, _, size in events):
        return
    profile = check(recording.read([jfr(tmp_path, *written)]))
    assert sorted(profile.live["size"].tolist()) == sorted(live.values())
    weights = sum(max(size, interval) for size in live.values())
    assert profile.process["live_bytes"][-1] == pytest.approx(weights)


def test_lanes_give_what_a_loop_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN windows and lanes of many sizes THEN the same events, and none twice."""
    chance = random.Random(seed())
    events = [
        Event(at, chance.randrange(1 << 47), chance.choice([0, 8, 300, 1 << 33]), 1 + at % 9)
        for at in range(9000)
    ]
    path = jfr(tmp_path, chunk(events, stacks=9))
    whole = recording.read([path])
    assert whole.series["allocated_blocks"].sum() > 0
    for window, lane in ((200_000, 1 << 10), (30_000, 600), (5_000, 300), (100_000, 1 << 20)):
        monkeypatch.setattr(event_places, "WINDOW", window)
        monkeypatch.setattr(event_places, "_LANE", lane)
        assert recording.read([path]).live.tolist() == whole.live.tolist()
    assert len(whole.live) == len({event.address for event in events if event.size})


@FUZZ
@given(
    values=st.lists(st.one_of(st.integers(0, 200), st.integers(0, (1 << 64) - 1)), min_size=1, max_size=40)
)
def test_integers(values: list[int]) -> None:
    data = b"".join(map(jfr_files.integer, values))
    ends = np.cumsum([len(jfr_files.integer(value)) for value in values])
    window = Window(data)
    for decode in (window.integers, window.short_integers):
        found, behind = decode(np.append(0, ends[:-1]))
        assert found.tolist() == values
        assert behind.tolist() == ends.tolist()
    found, behind = window.run(0, len(values) + 5)
    assert found.tolist() == values
    assert behind.tolist() == ends.tolist()


@FUZZ
@given(values=st.lists(st.sampled_from([0, 5, 5 << 32, (1 << 48) + 1, (1 << 64) - 1, 7]), max_size=30))
def test_order(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    assert order.ascending(array).tolist() == sorted(range(len(values)), key=values.__getitem__)
    expected = [
        max((at for at in range(place) if values[at] == values[place]), default=-1)
        for place in range(len(values))
    ]
    assert order.before(array).tolist() == expected


@pytest.mark.parametrize("sample", [SAMPLED, TRACKING, None])
def test_cut_in_a_chunk_of_the_right_size(sample: Path | None, tmp_path: Path) -> None:
    """GIVEN a chunk that ends at any byte, as its header says THEN no other error than UserError."""
    data = gzip.decompress(sample.read_bytes()) if sample else chunk([Event(1, 0x1000, 10), Event(2, 0x1000)])
    step = len(data) // 60 + 1 if sample else 1
    for end in range(seed() % step, len(data), step):
        cut = data[:8] + end.to_bytes(8, "big") + data[16:end]
        path = jfr(tmp_path, cut)
        if end < 68:
            assert isinstance(outcome(recording, path), str)
        else:
            outcome(recording, path)


@FUZZ
@given(data=st.data())
@pytest.mark.parametrize("real", [SAMPLED, TRACKING, None])
def test_bytes_that_are_overwritten(real: Path | None, tmp_path: Path, data: st.DataObject) -> None:
    """GIVEN a chunk in which bytes are others, of the same length THEN no other error than UserError."""
    plain = bytearray(
        gzip.decompress(real.read_bytes())
        if real
        else chunk([Event(at, 0x1000 * (at % 3), at % 9) for at in range(40)], rss=[(1, 1)])
    )
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(8, len(plain) - 1))
        new = data.draw(st.one_of(st.sampled_from([b"\xff" * 9, b"\0", b"\x80" * 4]), st.binary(max_size=9)))
        plain[at : at + len(new)] = new[: len(plain) - at]
    outcome(recording, jfr(tmp_path, bytes(plain)))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (4, b"\0\1", r"byte 0x0: JFR's version 1\.0"),
        (64, bytes(4), "byte 0x0: a chunk whose integers are not compressed"),
        (56, bytes(8), "byte 0x0: a JFR chunk without a sensible size or clock"),
        (24, (1 << 40).to_bytes(8, "big"), "metadata of 0 bytes leaves its chunk"),
        (24, b"\xff" * 8, "byte 0x0: metadata of 0 bytes leaves its chunk"),
        (16, (68).to_bytes(8, "big"), "no constants are where the chunk says"),
    ],
)
def test_headers_that_are_wrong(at: int, value: bytes, message: str, tmp_path: Path) -> None:
    data = bytearray(chunk([Event(1, 0x1000, 10)]))
    data[at : at + len(value)] = value
    path = jfr(tmp_path, bytes(data))
    with pytest.raises(UserError, match=message) as caught:
        recording.read([path])
    assert re.search(re.escape(str(path)), caught.value.what)


def test_types_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN structures that double with each level and have no field, or miss THEN an error at once."""
    doubling = {f"t{at}": (500 + at, ((f"a{at}", f"t{at + 1}", False),) * 2) for at in range(30)}
    long = jfr_files.TYPES["profiler.Malloc"]
    malloc = (long[0], (("x", "t0", False), *long[1]))
    many = {**jfr_files.TYPES, **doubling, "t30": (530, ()), "profiler.Malloc": malloc}
    monkeypatch.setattr(jfr_files, "TYPES", many)
    with pytest.raises(UserError, match="structures in structures without an end"):
        recording.read([jfr(tmp_path, chunk([Event(1, 0x1000, 10)]))])
    itself = {**jfr_files.TYPES, "t30": (530, (("y", "t30", False),))}
    monkeypatch.setattr(jfr_files, "TYPES", itself)
    with pytest.raises(UserError, match="structures in structures without an end"):
        recording.read([jfr(tmp_path, chunk([Event(1, 0x1000, 10)]))])


@pytest.mark.parametrize("form", ["java.lang.String", "boolean", "double"])
def test_fields_of_other_forms(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN types whose fields are texts or broken numbers THEN an error, or what is left without them."""
    plain = chunk([Event(1, 0x1000, 10), Event(2, 0x1000)], rss=[(1, 5), (2, 3)])
    known = {"double": (1004, ()), **jfr_files.TYPES}
    for name, (number, fields) in jfr_files.TYPES.items():
        for at in range(len(fields)):
            other = (*fields[:at], (fields[at][0], form, False), *fields[at + 1 :])
            monkeypatch.setattr(jfr_files, "TYPES", {**known, name: (number, other)})
            data = chunk([Event(1, 0x1000, 10), Event(2, 0x1000)], rss=[(1, 5), (2, 3)])
            assert len(data) > len(plain) / 2
            outcome(recording, jfr(tmp_path, data))
