"""The figures that the tools' own readers give of the same files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import needs
from harness.recordings.imported_profiles import SAMPLES, held_by, last
from offheap.formats.imported.events import heaptrack, mtrace
from offheap.formats.imported.reports import massif
from offheap.formats.imported.samples import heap_text, pprof


def output(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr  # mtrace(1) ends with 1 when there are leaks
    return done.stdout


def test_mtrace_s_own_script() -> None:
    listed = output(needs.program("mtrace"), SAMPLES / "mtrace.log")
    blocks = re.findall(r"^(0x[0-9a-f]+) +(0x[0-9a-f]+)", listed, re.MULTILINE)
    profile = mtrace.read([SAMPLES / "mtrace.log"])
    assert sorted(profile.live["size"].tolist()) == sorted(int(size, 16) for _, size in blocks)


def test_heaptrack_print() -> None:
    program = needs.program("heaptrack_print")
    shown = output(program, SAMPLES / "heaptrack.zst", "-p0", "-a0", "-T0", "-l1")
    profile = heaptrack.read([SAMPLES / "heaptrack.zst"])
    assert "total memory leaked: 100.00K" in shown
    assert sum(size for _, size in last(profile).values()) == 100_000
    calls = re.search(r"calls to allocation functions: (\d+)", shown)
    assert calls
    latest = {int(row["stack"]): row["allocated_blocks"] for row in profile.series}
    assert sum(latest.values()) == int(calls[1])


def test_ms_print() -> None:
    shown = output(needs.program("ms_print"), SAMPLES / "massif.out")
    peak = max(int(found.replace(",", "")) for found in re.findall(r"->[\d.]+% \(([\d,]+)B\)", shown))
    assert held_by(massif.read([SAMPLES / "massif.out"]), "keep_one")[1] == peak


def test_go_tool_pprof() -> None:
    """By function, in bytes: the same inuse_space as pprof's own list."""
    go = needs.program("go", "for go tool pprof")
    shown = output(
        go,
        "tool",
        "pprof",
        "-sample_index=inuse_space",
        "-unit=B",
        "-top",
        "-nodefraction=0",
        SAMPLES / "go.pb.gz",
    )
    flat = {
        name: int(size)
        for size, name in re.findall(r"^ *(\d+)B .*% +(\S+)(?: \(inline\))?$", shown, re.MULTILINE)
    }
    profile = pprof.read([SAMPLES / "go.pb.gz"])
    sums: dict[str, float] = {}
    for number, (_, size) in last(profile).items():
        name = profile.frames[profile.stacks[number - 1][0]].name
        sums[name] = sums.get(name, 0.0) + size
    assert flat["main.leak"] == sums["main.leak"] > 500_000
    assert sum(flat.values()) == sum(sums.values())


def test_go_tool_pprof_of_a_text() -> None:
    """It scales the samples of the text as offheap does, and cuts each number off to a whole one."""
    shown = output(
        needs.program("go", "for go tool pprof"), "tool", "pprof", "-raw", SAMPLES / "go-debug1.txt"
    )
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(\d+): ", shown, re.MULTILINE)
    columns = [sum(map(int, column)) for column in zip(*rows, strict=True)]
    series = heap_text.read([SAMPLES / "go-debug1.txt"]).series
    names = ("allocated_blocks", "allocated_bytes", "live_blocks", "live_bytes")
    assert [float(series[name].sum()) for name in names] == pytest.approx(columns, rel=0, abs=len(rows))
    assert columns[3] > 500_000
