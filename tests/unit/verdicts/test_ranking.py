"""The order of suspects, the answer in words, and what the analysis of a large recording costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT
from harness.simulation import (
    Cache,
    Churn,
    JustInTime,
    Leak,
    Process,
    compiler,
    inflater,
    native_stack,
)
from harness.simulation.stacks import java, jvm
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.conclusion import conclude
from offheap.analysis.leaks.leaks import ranking, suspects
from offheap.recording.model import Frame

APPLICATION = inflater("com.example.Shop.serve", "com.example.Main.main")
TREE = native_stack("std::__1::__tree<int>::__emplace(int const&)", "observer::remember(long)")


def zoo(seed: int = 1) -> Process:
    process = Process(20, seed)
    process.add(compiler(), JustInTime(800, 32_768))
    process.add(inflater("com.example.Zip.churn", "com.example.Main.main"), Churn(2000, 40_000, 0.05))
    process.add(inflater("com.example.Slow.leak", "com.example.Main.main"), Leak(60, 40_000))
    process.add(inflater("com.example.Fast.leak", "com.example.Main.main"), Leak(200, 40_000))
    process.add(
        inflater("com.example.Cache.fill", "com.example.Main.main"), Cache(500, 20_000, 1000, "closed")
    )
    process.add(TREE, Leak(40, 40_000))
    return process


def test_leaks_come_first_the_fastest_first() -> None:
    found = suspects(zoo().record())
    leaking = [suspect.blamed.name for suspect in found if suspect.verdict == "leak"]
    assert leaking[0] == "com.example.Fast.leak"
    assert set(leaking) == {"com.example.Fast.leak", "com.example.Slow.leak", "observer::remember(long)"}
    assert [suspect.rank for suspect in found] == list(range(1, len(found) + 1))
    assert all(suspect.why and "\n" not in suspect.why for suspect in found)
    assert all(0 <= suspect.confidence < 1 for suspect in found)


def test_the_jvms_own_growth_ranks_below_the_applications() -> None:
    process = Process(20, 5)
    process.add(compiler(), Leak(400, 40_000))
    process.add(APPLICATION, Leak(100, 40_000))
    first, second = suspects(process.record())
    assert (first.blamed.kind, second.blamed.kind) == ("java", "jvm")
    assert first.growth_bytes_per_second.estimate < second.growth_bytes_per_second.estimate


@pytest.mark.parametrize(
    "commits",
    [
        "HeapRegionManager::expand_and_allocate_humongous(unsigned int)",
        "G1HeapRegionManager::expand_exact(unsigned int, unsigned int, WorkerThreads*)",
        "ZPhysicalMemoryManager::map(ZVirtualMemory const&, unsigned int) const",
        "XPhysicalMemoryManager::map(unsigned long, XPhysicalMemory const&) const",
        "ShenandoahHeapRegion::do_commit()",
        "PSVirtualSpace::expand_by(unsigned long)",
    ],
)
@pytest.mark.parametrize("thread", ["java", "jvm"])
def test_pages_of_the_java_heap_are_no_suspect(commits: str, thread: str) -> None:
    """The thread whose object does not fit commits them, so the stack has the application's frames."""
    process = Process(20, 5)
    inner = (Frame("mmap", "native", ""), jvm("os::commit_memory(char*, unsigned long, bool)"), jvm(commits))
    outer = (java("com.example.Scans.scan", 20), java("java.lang.Thread.run", 840))
    process.add((*inner, *(outer if thread == "java" else (jvm("VMThread::run()"),))), Leak(400, 40_000))
    ranked = ranking(process.record())
    (found,) = ranked
    assert found.verdict == "steady"
    assert "pages of the Java heap" in found.why
    assert conclude(ranked).rank is None


def test_tables_of_the_heaps_pages_are_not_the_applications() -> None:
    """A thread whose object needs a page of ZGC makes them, whatever the object is."""
    process = Process(20, 5)
    inner = (
        Frame("malloc", "native", ""),
        jvm("os::malloc(unsigned long)"),
        jvm("XLiveMap::XLiveMap(unsigned int)"),
    )
    page = jvm("XPageAllocator::alloc_page(unsigned char, unsigned long, XAllocationFlags)")
    process.add((*inner, page, java("com.example.Pages.render", 20)), Leak(400, 40_000))
    process.add((*inner, page, jvm("XDriver::run_service()")), Leak(400, 40_000))
    verdicts = {found.blamed.kind: found.verdict for found in ranking(process.record())}
    assert verdicts == {"java": "steady", "jvm": "leak"}, "the JVM's own threads are judged by their blocks"


def test_an_empty_recording_has_no_suspects() -> None:
    recording = Process(5).record()
    assert suspects(recording) == []
    assert answer(ranking(recording)).startswith("Nothing was recorded")


def test_the_answer_names_the_leak_and_its_caller() -> None:
    recording = zoo().record()
    text = answer(ranking(recording))
    assert text.startswith("Leaking: ")
    assert "through java.util.zip.Inflater.<init>, called by com.example.Fast.leak; confidence 9" in text
    assert "2 more sites leak" in text


def test_the_answer_does_not_cry_wolf() -> None:
    process = Process(20, 1)
    process.add(APPLICATION, Churn(1000, 7160, 0.2))
    recording = process.record(interval=32 << 10)
    assert answer(ranking(recording)).startswith("No leak found in 20.0 s: no site leaks more than 1.")


def test_a_million_blocks_of_ten_thousand_stacks(tmp_path: Path) -> None:
    """CPU and memory of analysis alone, in a process of its own: some 15 sorts and loops."""
    program = tmp_path / "large.py"
    program.write_text(
        "import gc, sys, time\n"
        "gc.disable()\n"
        "import numpy as np\n"
        "from harness.simulation import large\n"
        "from offheap.analysis.leaks.leaks import suspects\n"
        "recording = large(blocks=1_000_000, stacks=10_000)\n"
        "def baseline():\n"
        "    start = time.process_time()\n"
        "    np.sort(np.random.default_rng(1).random(1_000_000))\n"
        "    sum(i * i for i in range(1_000_000))\n"
        "    return time.process_time() - start\n"
        "def measured():\n"
        "    before = baseline()\n"
        "    start = time.process_time()\n"
        "    found = suspects(recording)\n"
        "    seconds = time.process_time() - start\n"
        "    return seconds / (before + baseline()) * 2, len(found)\n"
        # Processes that share the caches only add to the time.
        "ratio, found = min(measured() for _ in range(3))\n"
        # A child inherits ru_maxrss from the process that spawns it; VmHWM is its own.
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(found, ratio, peak)\n"
    )
    outcome = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found, ratio, kibibytes = outcome.stdout.split()
    assert int(found) == 10_000
    assert float(ratio) < 24
    assert int(kibibytes) < 400 * 1024


def test_all_reasons_have_one_unit_of_time() -> None:
    process = Process(30, 5)
    process.add(APPLICATION, Leak(200, 7160))  # 1.4 MiB/s
    process.add(native_stack("slow"), Leak(8, 1500))  # 12 KiB/s: alone its rate would be by the minute
    ranked = ranking(process.record(exact=True))
    reasons = [suspect.why for suspect in ranked if suspect.verdict in ("leak", "growing")]
    assert len(reasons) == 2
    assert all("/s " in why and "/min" not in why for why in reasons)
