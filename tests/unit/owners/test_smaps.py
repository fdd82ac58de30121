"""/proc on a process's memory: smaps, page maps, stack pointers, malloc's large blocks."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.paths import TESTS
from offheap.proc import maps, smaps, threads
from offheap.proc.glibc import glibc_chunks
from offheap.proc.pagemap import PAGE, Pagemap, Present

DATA = TESTS / "data" / "smaps"
SAMPLES = ("11-parallel", "17-serial", "21-g1", "25-z")
MIB = 1 << 20
NO_PID = 1 << 22  # above every kernel.pid_max


def sample(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def kernels_sums(rollup: str) -> dict[str, int]:
    """The kernel's own sums over all mappings, in bytes by field, from smaps_rollup."""
    return {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+): +(\d+) kB$", rollup, re.MULTILINE)}


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_of_a_jvm(name: str) -> None:
    text = sample(name)
    rows = smaps.parse(text)
    assert len(rows) == text.count("VmFlags:") > 100
    assert all("rd" in row.flags for row in rows if row.mapping.permissions.startswith("r"))
    assert all(row.memory.rss <= row.mapping.end - row.mapping.start for row in rows)
    (mapped,) = [row for row in rows if row.mapping.name == "mapped.bin"]
    assert mapped.memory.rss == 16 * MIB
    assert mapped.is_file
    assert not next(row for row in rows if row.mapping.path == "[heap]").is_file
    rollup = kernels_sums((DATA / f"{name}-rollup.txt").read_text())
    # The kernel read the two some milliseconds apart.
    assert abs(smaps.total(rows).rss - rollup["Rss"]) < MIB
    assert abs(smaps.total(rows).private_dirty - rollup["Private_Dirty"]) < MIB


@pytest.mark.parametrize("name", SAMPLES)
def test_maps_are_the_first_lines_of_smaps(name: str) -> None:
    lines = [line for line in sample(name).splitlines() if "-" in line.split()[0]]
    assert maps.parse(lines) == [row.mapping for row in smaps.parse(sample(name))]


def test_memory_without_a_file_is_none() -> None:
    (heap, *_) = [row for row in smaps.parse(sample("25-z")) if "java_heap" in row.mapping.path]
    assert not heap.is_file
    assert heap.mapping.deleted


def test_what_grows_while_it_is_read_is_listed_twice_and_counts_once() -> None:
    """Output of Linux 6.18 for a glibc arena that grew by a page during the read."""
    text = sample("grown")
    assert text.count("VmFlags:") == 3
    grown, rest = smaps.parse(text)
    assert (grown.mapping.start, grown.mapping.permissions) == (0x7F283C000000, "rw-p")
    assert grown.mapping.end == rest.mapping.start
    assert grown.memory.rss == 8072 << 10


def test_own_process() -> None:
    with mmap.mmap(-1, 64 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for page in range(5):
            block[page * PAGE] = 1
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        (row,) = [r for r in smaps.read(os.getpid()) if r.mapping.start <= address < r.mapping.end]
        assert row.memory.rss >= 5 * PAGE
        assert kernels_sums(Path("/proc/self/smaps_rollup").read_text())["Rss"] > row.memory.rss
        with Pagemap(os.getpid()) as pagemap:
            assert pagemap.present(address, address + 64 * PAGE) == 5
            assert pagemap.pages(address, address + 64 * PAGE, 3).tolist() == [
                address,
                address + PAGE,
                address + 2 * PAGE,
            ]
            assert pagemap.present(1 << 60, (1 << 60) + PAGE) == 0


READER = """
import ctypes, mmap, os
block = mmap.mmap(-1, 64 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(5):
    block[page * mmap.PAGESIZE] = 1
for page in range(10, 17):
    block[page * mmap.PAGESIZE]
print(ctypes.addressof(ctypes.c_char.from_buffer(block)), flush=True)
input()
if not os.fork():
    os.read(0, 1)
print(flush=True)
os.read(0, 1)
"""


def test_pages_that_were_only_read_or_are_shared_with_a_child_are_in_doubt() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        address = int(process.stdout.readline())
        with Pagemap(process.pid) as pagemap:
            assert pagemap.present(address, address + 64 * PAGE) == 12
            assert pagemap.split(address, address + 64 * PAGE) == Present(5, 7)
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "\n"
            assert pagemap.split(address, address + 64 * PAGE) == Present(0, 12)


def test_pages_of_a_file_count(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * PAGE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as block:
        assert block[0] == ord("x")
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        with Pagemap(os.getpid()) as pagemap:
            assert pagemap.split(address, address + PAGE) == Present(1, 0)


def test_no_such_process() -> None:
    for read in (smaps.read, threads.read, Pagemap):
        with pytest.raises(ProcessLookupError):
            read(NO_PID)


@given(st.text() | st.lists(st.sampled_from(sample("11-parallel").split("\n")[:400])).map("\n".join))
def test_any_text_is_parsed(text: str) -> None:
    for row in smaps.parse(text):
        assert row.mapping.start >= 0


def test_stack_pointers_of_waiting_threads() -> None:
    stop = threading.Event()
    waiting = threading.Thread(target=stop.wait, name="waiting")
    waiting.start()
    try:
        found = {thread.tid: thread for thread in threads.read(os.getpid())}
        assert waiting.native_id is not None
        pointer = found[waiting.native_id].stack_pointer
        if pointer is None:
            needs.skip("the right to see stack pointers", needs.TRACING)
        (row,) = [r for r in smaps.read(os.getpid()) if r.mapping.start <= pointer < r.mapping.end]
        assert row.mapping.permissions == "rw-p"
    finally:
        stop.set()
        waiting.join()


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("running\n", None),
        ("-1 0x7ffd12345670 0x7f0011223344\n", 0x7FFD12345670),
        ("202 0x1 0x80 0x0 0x0 0x0 0xffffffff 0x7f0012340000 0x7f0011223344\n", 0x7F0012340000),
        ("", None),
        ("202 0x1", None),
    ],
)
def test_syscall_text(text: str, pointer: int | None) -> None:
    assert threads.parse_syscall(text) == pointer


@given(st.text())
def test_any_syscall_text(text: str) -> None:
    threads.parse_syscall(text)


def test_faults_of_a_thread() -> None:
    stat = "7 (Attach) Listener) S 1 7 7 0 -1 4194368 152 0 3 0 0 0 0 0 20 0 1 0 99 0 0\n"
    assert threads.parse_faults(stat, ("Attach) Listener",)) == 155
    assert threads.parse_faults(stat, ("Attach",)) == 0
    assert threads.parse_faults("7 (x) S 1", ("x",)) == 0


@given(st.text())
def test_any_stat_text(text: str) -> None:
    assert threads.parse_faults(text, ("",)) >= 0


def test_faults_bring_pages() -> None:
    """A thread that touches 100 new pages has a fault for each; another thread's faults do not count."""
    before = threads.faults(os.getpid(), ("toucher",))
    ready, done = threading.Event(), threading.Event()

    def touch() -> None:
        Path("/proc/thread-self/comm").write_text("toucher")
        memory = mmap.mmap(-1, 100 * PAGE)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(memory), PAGE):
            memory[at] = 1
        ready.set()
        done.wait()

    thread = threading.Thread(target=touch)
    thread.start()
    ready.wait()
    assert 100 <= threads.faults(os.getpid(), ("toucher",)) - before < 300
    done.set()
    thread.join()
    assert threads.faults(os.getpid(), ("nobody",)) == 0


LARGE_BLOCKS = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
print(*(libc.malloc(ctypes.c_size_t(int(size))) for size in sys.argv[1:]), flush=True)
sys.stdin.read()
"""


def test_large_blocks_of_malloc_are_found_by_their_headers() -> None:
    """In a process of its own: the kernel joins a block's mapping to one that an earlier test left."""
    # The size is above the maximum of glibc's own threshold.  The blocks stay untouched.
    sizes = (1024 * MIB, 700 * MIB + 123)
    with subprocess.Popen(
        [sys.executable, "-c", LARGE_BLOCKS, *map(str, sizes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        blocks = [int(word) for word in process.stdout.readline().split()]
        ranges = [
            (row.mapping.start, row.mapping.end)
            for row in smaps.read(process.pid)
            if row.mapping.permissions == "rw-p" and not row.mapping.path
        ]
        found = dict(glibc_chunks.find(process.pid, ranges)[0])
        process.stdin.close()
    assert len(blocks) == len(sizes)
    for block, size in zip(blocks, sizes, strict=True):
        assert 0 <= found[block - 16] - (block - 16) - size <= PAGE + 16


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ((0, 0x21002), 0x21000),
        ((0, 0x21003), 0),  # PREV_INUSE is never set on a mmapped chunk
        ((16, 0x21002), 0),
        ((0, 0x21012), 0),
        ((0, 2), 0),
        ((0, 0xF4FF2), 0xF5000),  # glibc 2.43, where malloc(1_000_000) has a size without the header
    ],
)
def test_headers(words: tuple[int, int], size: int) -> None:
    assert glibc_chunks.chunk_size(struct.pack("<QQ", *words)) == size


def test_a_cut_header_is_none() -> None:
    assert glibc_chunks.chunk_size(b"\0" * 8) == 0
