"""The live table grows during allocations: no block is lost, and a reader misses no lasting block."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from harness.hostile.small_places import memory_cgroup
from harness.native.compiler import compile_c
from harness.paths import PROBE
from offheap.cli import sampling_options
from offheap.errors import UserError
from offheap.probe.contract import Coverage, Mode, Section
from offheap.probe.live_files import limits
from offheap.probe.live_files.live_file import LiveFile
from offheap.recording import allowance

MIB = 1 << 20
FIRST = 1 << 21  # blocks of an exact recording's first table


@pytest.fixture(scope="module")
def many_blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("growth") / "many_blocks"
    return compile_c([PROBE / "tests" / "many_blocks.c"], program, libraries=["pthread"])


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-test-") as name:
        yield Path(name)


@contextmanager
def holding(
    program: Path, library: Path, folder: Path, options: str, *arguments: int, **more: object
) -> Iterator[subprocess.Popen[str]]:
    variables = {"LD_PRELOAD": str(library), "OFFHEAP": f"{options},dir={folder}"}
    process = subprocess.Popen(
        [program, *map(str, arguments)],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **more,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def small(live_file: LiveFile) -> np.ndarray:
    """Sizes of the program's own blocks, which are 16 to 79 bytes large."""
    sizes = live_file.live()["size"]
    return sizes[(sizes >= 16) & (sizes < 80)]


def test_no_block_is_lost_while_it_grows(many_blocks: Path, probe_library: Path, folder: Path) -> None:
    count = 3_000_000
    with holding(many_blocks, probe_library, folder, "exact", count, 2, 50) as process:
        assert said(process).startswith(f"held {count}")
        (path,) = folder.iterdir()
        with LiveFile(path) as live_file:
            header = live_file.header
            assert header.mode is Mode.EXACT
            assert int(header.sections[Section.KEYS]["capacity"]) == FIRST
            assert [capacity for _, capacity in header.segments] == [2 * FIRST]
            assert "lost_blocks" not in header.losses
            sizes = small(live_file)
            expected = np.bincount(16 + np.arange(count) % 64, minlength=80)
            found = np.bincount(sizes, minlength=80)
            # The program, its threads and libraries have such blocks, too.
            assert (found >= expected).all()
            assert found.sum() - expected.sum() < 100
            go(process)
            assert said(process) == "freed\n"
            live_file.refresh()
            assert count // 2 <= len(small(live_file)) < count // 2 + 100


def test_a_reader_meanwhile_misses_nothing_that_stays(
    many_blocks: Path, probe_library: Path, folder: Path
) -> None:
    """The reader repeats: no count is smaller than the one before, and the last one is complete."""
    count = 400_000
    with holding(many_blocks, probe_library, folder, "exact,room=2300k", count, 1) as process:
        deadline = time.monotonic() + 60
        seen: list[int] = []
        while (not seen or seen[-1] < count) and time.monotonic() < deadline:
            time.sleep(0.02)
            with suppress(UserError, ValueError):  # the file is not complete yet
                (path,) = folder.iterdir()
                with LiveFile(path) as live_file:
                    seen.append(len(small(live_file)))
        assert said(process).startswith(f"held {count}")
    assert seen == sorted(seen)
    assert seen[-1] >= count


@pytest.mark.parametrize(("threads", "lost"), [(1, 0), (2, 40)])
def test_it_grows_from_small_tables(
    threads: int, lost: int, many_blocks: Path, probe_library: Path, folder: Path
) -> None:
    """Like near a memory limit: 4,096 or 8,192 blocks at first, then as many as the room allows.

    A thread waits half a millisecond at most for another that makes room, and the scheduler may stop that
    one for longer: two threads lose some blocks on a busy machine, one thread never does.
    """
    count = 400_000
    with holding(many_blocks, probe_library, folder, "exact,room=2300k", count, threads) as process:
        assert said(process).startswith(f"held {count}")
        (path,) = folder.iterdir()
        with LiveFile(path) as live_file:
            assert int(live_file.header.sections[Section.KEYS]["capacity"]) < 1 << 16
            assert len(live_file.header.segments) >= 2
            losses = live_file.header.losses
            assert losses.pop("lost_blocks", 0) <= lost
            assert not losses, "small tables leave room for stacks, threads and modules"
            assert len(small(live_file)) >= count - lost


@pytest.mark.parametrize("options", ["exact,memory=8m", "interval=1,memory=8m", "exact,blocks=65536"])
def test_the_memory_bound_that_was_stated(
    options: str, many_blocks: Path, probe_library: Path, folder: Path
) -> None:
    count = 600_000
    with holding(many_blocks, probe_library, folder, options, count, 2) as process:
        assert said(process).startswith(f"held {count}")
        (path,) = folder.iterdir()
        with LiveFile(path) as live_file:
            lost = live_file.header.losses["lost_blocks"]
            there = len(small(live_file))
            assert abs(there + lost - count) < 200
            assert there > 50_000
        assert path.stat().st_blocks * 512 < 8 * MIB


def test_the_memory_limit_of_its_container(many_blocks: Path, probe_library: Path, folder: Path) -> None:
    """The table stops growing, the losses are counted, and the program is not killed."""
    count = 400_000
    with memory_cgroup() as group:
        with holding(
            many_blocks, probe_library, folder, "exact", count, 1, preexec_fn=group.enter
        ) as process:
            assert said(process).startswith(f"held {count}")
            whole = group.used()
            (path,) = folder.iterdir()
            taken = path.stat().st_blocks * 512
        path.unlink()
        limit = whole - taken + 12 * MIB
        group.limit(limit)
        with holding(
            many_blocks, probe_library, folder, "exact", count, 1, preexec_fn=group.enter
        ) as process:
            assert said(process).startswith(f"held {count}")
            (path,) = folder.iterdir()
            with LiveFile(path) as live_file:
                lost = live_file.header.losses.get("lost_blocks", 0)
                assert abs(len(small(live_file)) + lost - count) < 200
                assert lost > 0
                assert Coverage.SHORT_OF_MEMORY in live_file.header.coverage
        assert group.kills() == 0


def test_threads_with_small_stacks_let_it_grow(many_blocks: Path, probe_library: Path, folder: Path) -> None:
    count = 200_000
    smallest = os.sysconf("SC_THREAD_STACK_MIN")
    with holding(many_blocks, probe_library, folder, "exact,room=2300k", count, 1, 0, smallest) as process:
        assert said(process).startswith(f"held {count}")
        (path,) = folder.iterdir()
        with LiveFile(path) as live_file:
            assert live_file.header.segments
            assert len(small(live_file)) >= count


def test_what_was_freed_is_used_again(many_blocks: Path, probe_library: Path, folder: Path) -> None:
    """The table is as large as the number of blocks that live at once, not that ever lived."""
    source = """
#include <stdlib.h>
static void *held[100000];
int main(void) {
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 100000; i++) held[i] = malloc(16 + (size_t)i % 64 + (size_t)round * 64);
        for (int i = 0; i < 100000; i++) free(held[i]);
    }
    return 0;
}
"""
    (folder / "churn.c").write_text(source)
    program = compile_c([folder / "churn.c"], folder / "churn")
    variables = {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,room=2300k,dir={folder}"}
    subprocess.run([program], env={**os.environ, **variables}, check=True, timeout=120)
    (path,) = folder.glob("*.live")
    with LiveFile(path) as live_file:
        rows = sum(capacity for _, capacity in live_file.header.segments)
        assert "lost_blocks" not in live_file.header.losses
    # A segment of four times the rows comes when the last is five eighths full, and the earlier ones have
    # at most a third of its rows: 8.5 rows a block.  Without reuse there would be 2.8 million.
    assert rows < 100_000 * 8.5


def test_a_command_reads_what_it_lets_the_probe_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 bytes a block, of which the probe takes 24; OFFHEAP_READ_MEMORY overrides the limit."""
    monkeypatch.setattr(allowance, "_probe_memory", 0)
    monkeypatch.delenv(allowance.VARIABLE, raising=False)
    for words, most in (
        ("budget=1%", 1 << 30),
        ("budget=1%,memory=67108864", 1 << 30),
        ("exact", 6 * (320 << 20)),
        ("exact,memory=2147483648,force", 12 << 30),
    ):
        sampling_options.allow_reading(words)
        assert allowance.limit() == most, words
    assert allowance.limit() >= 50_000_000 * limits.LIVE_ROW_BYTES
    monkeypatch.setenv(allowance.VARIABLE, "3GiB")
    assert allowance.limit() == 3 << 30


def test_no_malloc_waits_for_a_millisecond(many_blocks: Path, probe_library: Path, folder: Path) -> None:
    """Only a delay in every run is the probe's; a single one may be a hypervisor that takes the CPU."""
    lines = []
    for number in range(3):
        its = folder / str(number)
        its.mkdir()
        with holding(many_blocks, probe_library, its, "exact,room=2300k", 1_000_000, 1) as process:
            lines.append(said(process))
        figures = re.fullmatch(r"held \d+, .* s, longest (.*) ms, over 1 ms (\d+)\n", lines[-1])
        assert figures, lines
        if int(figures[2]) == 0:
            return
    raise AssertionError(lines)
