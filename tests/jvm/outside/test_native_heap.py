"""malloc's chunks walked from outside: a program and JVMs with known blocks, and glibc's own count."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.jvms import malloc_info
from harness.jvms.footprint import DIRECT, compile_footprint, footprint_jvm
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import read_line
from harness.jvms.zoo import Running, Zoo, programs
from harness.native.compiler import compile_c
from harness.paths import HEAPS, TESTS
from harness.plugins.rotation import one_of
from offheap.analysis.native_heap.block_sizes import known_as
from offheap.analysis.native_heap.native_heap import native_heap
from offheap.analysis.native_heap.remedies import remedies
from offheap.analysis.native_heap.results import Arena, BlockSize, NativeHeap
from offheap.analysis.owners import accounting, mapping_shapes
from offheap.inspect.process import inspect_process
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.structures import malloc_header
from offheap.jvm.texts import nmt
from offheap.proc import smaps, status
from offheap.proc.glibc import glibc_heap

MIB = 1 << 20
DATA = TESTS / "data" / "malloc_info"

pytestmark = needs.tracing


@pytest.fixture(scope="module")
def known_blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = HEAPS / "known_blocks.c"
    return compile_c([source], tmp_path_factory.mktemp("heaps") / "known_blocks", libraries=["pthread"])


@contextmanager
def running(program: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment}
    )
    try:
        assert read_line(process, 30) == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def heap_of(pid: int) -> NativeHeap:
    found = inspect_process(pid, attach=False).native_heap
    assert found
    return found


def sizes(heap: NativeHeap) -> dict[int, BlockSize]:
    return {size.size: size for size in heap.sizes}


def test_every_block_of_a_known_program(known_blocks: Path) -> None:
    with running(known_blocks) as process:
        heap = heap_of(process.pid)
        assert heap.coverage == 1.0
        assert not heap.told_apart
        assert not heap.tags
        # 20,000 in each arena, minus every other one of the first half and 2,000 more.
        assert sizes(heap)[1008].blocks == 2 * (20_000 - 5_000 - 2_000)
        assert sizes(heap)[1008].resident == sizes(heap)[1008].bytes
        assert (sizes(heap)[1008].least, sizes(heap)[1008].most) == (985, 1000)
        assert sizes(heap)[3008].blocks == 1
        assert sizes(heap)[8 * MIB + 4096].blocks == 1
        main, other = sorted(heap.arenas, key=lambda arena: arena.address)
        assert (main.address, main.heaps, other.heaps) == (0, 1, 1)
        for arena in (main, other):
            # The block of 3,000 bytes and the buffers of stdin and stdout lie in the free memory.
            assert 7_000 * 1008 - 3008 - 8192 <= arena.free_resident < 7_000 * 1008 + MIB


def test_trimming_gives_back_what_was_foretold(known_blocks: Path) -> None:
    with running(known_blocks) as process:
        foretold = heap_of(process.pid).trimmable
        assert foretold > 3 * MIB
        before = smaps.total(smaps.read(process.pid)).rss
        assert process.stdin
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert read_line(process, 30) == b"trimmed\n"
        given_back = before - smaps.total(smaps.read(process.pid)).rss
        # malloc_trim gives back exactly that; a few pages are its own stack and code.
        assert given_back == pytest.approx(foretold, abs=64 << 10)
        assert heap_of(process.pid).trimmable < 64 << 10


def test_what_would_give_it_back(known_blocks: Path) -> None:
    with running(known_blocks) as process:
        heap = heap_of(process.pid)
        trim, arena_max, threshold = heap.remedies
        assert (trim.bytes, trim.at_most) == (heap.trimmable, False)
        assert (arena_max.bytes, arena_max.at_most) == (0, True)  # the program has no more than two arenas
        assert threshold.bytes == 0  # the main arena's top is small, and the other arena's top is untouched
    settings = {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}
    with running(known_blocks, **settings) as process:
        assert [remedy.name for remedy in heap_of(process.pid).remedies] == ["offheap trim"]
    arenas = [
        Arena(address, 1, 64 * MIB, kept, kept, top, 0)
        for address, kept, top in ((0, 8 * MIB, 2 * MIB), (64, 5 * MIB, 1 << 10), (128, 3 * MIB, 0))
    ]
    _, arena_max, threshold = remedies(arenas, {})
    assert arena_max.bytes == 3 * MIB
    assert threshold.bytes == 2 * MIB - (128 << 10)


def test_one_arena_only(known_blocks: Path) -> None:
    with running(known_blocks, MALLOC_ARENA_MAX="1") as process:
        heap = heap_of(process.pid)
        assert [arena.address for arena in heap.arenas] == [0]
        assert sizes(heap)[1008].blocks == 2 * (20_000 - 5_000 - 2_000)


def test_reading_does_not_grow_the_process(known_blocks: Path) -> None:
    with running(known_blocks) as process:
        heap_of(process.pid)
        before = status.read(process.pid).rss_bytes
        heap_of(process.pid)
        assert status.read(process.pid).rss_bytes == before


def test_more_blocks_than_are_walked(tmp_path: Path) -> None:
    source = HEAPS / "many_blocks.c"
    program = compile_c([source], tmp_path / "many_blocks")
    count = 900_000
    with subprocess.Popen([program, str(count)], stdout=subprocess.PIPE) as process:
        try:
            assert read_line(process, 60) == b"ready\n"
            some = inspect_process(process.pid, attach=False)
            every = inspect_process(process.pid, attach=False, exact=True).native_heap
        finally:
            process.kill()
    assert every
    assert not every.estimated
    assert every.coverage == 1
    assert every.external.blocks == pytest.approx(0.9 * count, rel=0.001)
    heap = some.native_heap
    assert heap
    assert heap.estimated
    assert 0.3 < heap.coverage < 0.95
    for name in ("blocks", "bytes", "resident"):
        assert getattr(heap.external, name) == pytest.approx(getattr(every.external, name), rel=0.01)
    assert heap.free_resident == pytest.approx(every.free_resident, rel=0.05)
    assert sum(holding.bytes for holding in some.holdings) + some.unattributed_bytes == some.memory.rss
    assert any("--exact walks all" in sentence for sentence in some.missing)


def test_heads_are_told_by_their_words(known_blocks: Path) -> None:
    """glibc 2.43 needs the words: its arenas have no flag; in older ones the words agree with it."""
    with running(known_blocks) as process:
        rows = smaps.read(process.pid)
        starts = [start for start, _ in accounting.heaps(rows, mapping_shapes.unflagged(rows))[1]]
        heads = glibc_heap.heads(process.pid, starts)
        assert len(heads) == 1
        _, others = accounting.heaps(rows, heads)
        assert [start for start, _ in others] == heads
        (_, other) = sorted(heap_of(process.pid).arenas, key=lambda arena: arena.address)
        assert other.address - heads[0] < 100
        assert glibc_heap.heads(process.pid, [rows[0].mapping.start]) == []


def test_old_glibc_keeps_plain_links(known_blocks: Path) -> None:
    """With the wrong link format chunks in caches count as in use: never the other way."""
    with running(known_blocks) as process:
        rows = smaps.read(process.pid)
        ranges = accounting.heaps(rows, glibc_heap.heads(process.pid, mapping_shapes.unflagged(rows)))
        plain = native_heap(glibc_heap.walk(process.pid, *ranges, scrambled=False), [], None)
        told = native_heap(glibc_heap.walk(process.pid, *ranges), [], None)
        # Seven chunks wait in the first thread's cache; the other thread's cache ended with its thread.
        assert sizes(plain)[1008].blocks - sizes(told)[1008].blocks == 7


@pytest.mark.parametrize("version", one_of(JRE_VERSIONS))
def test_external_blocks_of_a_leak(version: int, jre: Callable[[int], Path], zoo: Zoo) -> None:
    """External malloc is within 2 % of the truth: the growth over the same program without its leak."""
    program = programs()["jni-malloc"]
    found = []
    for rate in (1e-3, 8000.0):
        command = zoo.command(program, jre(version), rate)
        command.insert(1, "-XX:NativeMemoryTracking=summary")
        with Running(command) as jvm:
            if rate > 1:
                jvm.truths(2)
                truth = jvm.stop_leaking()
            found.append(inspect_process(jvm.pid))
    before, after = (accounts.native_heap for accounts in found)
    assert before
    assert after
    assert after.told_apart
    assert truth.bytes > 20 * MIB
    assert after.external.bytes - before.external.bytes == pytest.approx(truth.bytes, rel=0.02)
    assert after.sizes[0].size == 2016
    # The first run, at the low rate, has taken one step, too.
    assert after.sizes[0].blocks == pytest.approx(truth.blocks, abs=20)
    assert after.coverage > 0.99


@pytest.mark.parametrize("version", one_of(JRE_VERSIONS))
def test_the_jvm_s_blocks_by_tag(version: int, jre: Callable[[int], Path], jdk: Path) -> None:
    classes = compile_footprint(jdk)
    with footprint_jvm(jre(version), classes, "g1", "-XX:NativeMemoryTracking=summary") as jvm:
        accounts = inspect_process(jvm.pid)
        text = AttachedVM(jvm.pid).jcmd("VM.native_memory summary scale=B")
        heap = accounts.native_heap
        report = nmt.parse(text)
        assert heap
        assert report
        tags = {tagged.name: tagged for tagged in heap.tags}
        assert tags["Other"].asked == DIRECT
        assert tags["Other"].use.blocks == 24
        # These have no new blocks between the walk and the report.
        for name in ("Other", "Symbol", "Class", "Module", "Metaspace"):
            if name in report.categories and report.categories[name].malloc_count:
                assert tags[name].use.blocks == pytest.approx(report.categories[name].malloc_count, rel=0.01)
                assert tags[name].asked == pytest.approx(report.categories[name].malloc, rel=0.02)
        # A compiler's arena may end between the walk and the report, which then lacks its name.
        unnamed = sum(tagged.asked for name, tagged in tags.items() if name.startswith("tag "))
        assert unnamed <= 0.01 * sum(tagged.asked for tagged in heap.tags)
        # 60 deflate streams have four tables each, the JVM's own jars at most a few.
        tables = next(size for size in heap.sizes if size.size == 65_552)
        assert 240 <= tables.blocks <= 248
        assert "Deflater" in known_as(tables)
        free = [holding for holding in accounts.holdings if holding.owner == "malloc-free"]
        assert free[0].bytes == pytest.approx(heap.free_resident, rel=0.01)
        if version >= 21:
            info = malloc_info.parse(AttachedVM(jvm.pid).jcmd("System.native_heap_info"))
            assert info
            assert heap.size == pytest.approx(info.system + info.mapped, rel=0.02)
            in_use = heap.size - sum(arena.free for arena in heap.arenas)
            # The command's own output is a block of 1 MiB, and the compilers' blocks change.
            arenas = abs(report.categories["Arena Chunk"].malloc - tags["Arena Chunk"].asked) + 2 * MIB
            assert in_use == pytest.approx(info.in_use, rel=0.02, abs=arenas)


def test_without_tracking_nobody_is_told_apart(jre: Callable[[int], Path], jdk: Path) -> None:
    with footprint_jvm(jre(17), compile_footprint(jdk), "serial") as jvm:
        heap = heap_of(jvm.pid)
        assert not heap.told_apart
        assert not heap.tags
        assert heap.external.blocks > 20_000
    with footprint_jvm(jre(17), compile_footprint(jdk), "serial", "-XX:NativeMemoryTracking=summary") as jvm:
        heap = heap_of(jvm.pid)  # without a question to the JVM the headers tell, but not the tags' names
        assert heap.told_apart
        assert {tagged.asked for tagged in heap.tags} >= {DIRECT}


def test_a_program_that_allocates_all_the_time(jre: Callable[[int], Path], zoo: Zoo) -> None:
    program = programs()["inflaters"]
    with Running(zoo.command(program, jre(17), 2000)) as jvm:
        jvm.truths(2)
        for _ in range(5):
            before = jvm.truths(1)[-1]
            heap = heap_of(jvm.pid)
            assert heap.coverage > 0.98
            # At least the program's count of a moment ago: 7,152 bytes for each Inflater's state.
            states = sizes(heap)[7168].blocks
            assert states >= before.blocks
    # External is not larger than the process.
    assert heap.external.resident < 200 * MIB


@pytest.mark.parametrize("version", [21, 25])
def test_malloc_info(version: int) -> None:
    text = (DATA / f"{version}-g1.txt").read_text()
    info = malloc_info.parse(text)
    assert info
    assert info.mapped_count == 31
    assert info.mapped == 30_642_176
    assert 0 < info.free < info.system < 64 * MIB
    assert malloc_info.parse(text[: text.rindex("</heap>")]) is None or info != malloc_info.parse(text[:500])
    assert malloc_info.parse("") is None


INFO_LINES = (DATA / "21-g1.txt").read_text().split("\n")


@given(st.lists(st.sampled_from(INFO_LINES) | st.text(max_size=30), max_size=30))
def test_any_lines_of_malloc_info(lines: list[str]) -> None:
    malloc_info.parse("\n".join(lines))


WORDS = st.integers(0, (1 << 64) - 1) | st.integers(0, 4096) | st.sampled_from([0x21, 0x31, 0x1001, 0x10])


@given(st.lists(WORDS, min_size=8, max_size=200), st.integers(0, 3))
def test_a_window_of_any_content(words: list[int], first: int) -> None:
    """For any content, each chunk lies behind the one before it and within the heap."""
    base = 0x7F0000000000
    content = bytearray(np.array(words, np.uint64).tobytes())
    end = base + len(content)
    chunks, flags, reached = glibc_heap._window(content, base, base + first * 16, end, 1000)
    assert len(chunks) == len(flags)
    ends = chunks["address"] + chunks["size"]
    assert (chunks["address"][1:] == ends[:-1]).all()
    assert (ends <= end).all()
    assert base + first * 16 <= reached <= end


@given(st.lists(st.tuples(st.integers(2, 1 << 20), WORDS, WORDS), max_size=50))
def test_any_header(blocks: list[tuple[int, int, int]]) -> None:
    size = np.array([one * 16 for one, _, _ in blocks], np.int64)
    first = np.array([one for _, one, _ in blocks], np.uint64)
    second = np.array([one for _, _, one in blocks], np.uint64)
    tags = malloc_header.tags(size, first, second)
    for tag, length, asked in zip(tags.tolist(), size.tolist(), first.tolist(), strict=True):
        assert tag == -1 or asked + malloc_header.HEADER_BYTES + 8 <= length


def test_tags_are_named_by_likeness() -> None:
    text = (TESTS / "data" / "nmt" / "21-g1-summary.txt").read_text()
    report = nmt.parse(text)
    assert report
    walked = [
        (number, category.malloc_count, category.malloc + number)
        for number, category in enumerate(report.categories.values())
        if category.malloc_count and category.name not in ("Arena Chunk", "GC")
    ]
    names = malloc_header.name_tags(walked, report)
    found = {number: list(report.categories)[number] for number, _, _ in walked}
    assert names == found
    assert malloc_header.name_tags([], report) == {}
