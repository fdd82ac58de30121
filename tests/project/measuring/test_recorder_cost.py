"""The recorder's cost beside the probe's: memory while it records, and its share of the budget."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from harness.command_line import offheap
from harness.jvms.waiting_jvm import waiting_jvm
from offheap.recording import load

# The recorder's limit while it records (docs/recording-format.md).
MOST_RSS = 50 << 20
# The budget bounds the recorder, too, after so many seconds.
SETTLED = 10.0
# The error in seconds of CPU of two readings of /proc/PID/stat, for user and system time each.
TICKS = 4 / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_recorder_beside_a_jvm(jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path) -> None:
    """For an idle JVM the budget is a share of one CPU: the recorder keeps within it."""
    output = tmp_path / "a.offheap"
    with (
        waiting_jvm(jre(17), waiting_classes) as jvm,
        subprocess.Popen(
            offheap("attach", str(jvm.pid), "--duration", "42s", "-o", output),
            stderr=subprocess.PIPE,
            text=True,
        ) as recorder,
    ):
        deadline = time.monotonic() + 60
        began = settled = 0.0
        while not began or time.monotonic() < began + 2 * SETTLED:
            assert time.monotonic() < deadline
            assert recorder.poll() is None, recorder.communicate()
            time.sleep(0.1)
            if not began and (output / "meta.json").exists():
                began = time.monotonic()
            if not settled and began and time.monotonic() > began + SETTLED + 1:
                settled, before = time.monotonic(), cpu_seconds(recorder.pid)
        share = (cpu_seconds(recorder.pid) - before) / (time.monotonic() - settled)
        assert share < 0.01 + TICKS / (time.monotonic() - settled)
        mapped = Path(f"/proc/{recorder.pid}/maps").read_text()
        assert "duckdb" not in mapped
        assert "symbolic" not in mapped
        _, err = recorder.communicate(timeout=120)
        assert recorder.returncode == 0, err
    recording = load(output)
    cost = recording.info.recorder
    assert cost is not None
    assert 0 < cost.rss_bytes < MOST_RSS, f"{cost.rss_bytes >> 20} MiB"
    assert 0 < cost.cpu_seconds < 30
    assert (recording.process["time"] < SETTLED).sum() >= 8
    readings = recording.owners.times
    assert (readings < SETTLED).sum() >= 4
    assert 2 <= (readings >= SETTLED).sum() <= 8
    assert readings[-1] > recording.info.duration_seconds - 2, "a reading before the probe is stopped"

    stats = subprocess.run(offheap("stats", output, "--json"), capture_output=True, text=True, check=True)
    assert json.loads(stats.stdout)["recording"]["recorder"] == dataclasses.asdict(cost)
    shown = subprocess.run(offheap("stats", output), capture_output=True, text=True, check=True).stdout
    assert "of CPU by its last snapshot" in shown
