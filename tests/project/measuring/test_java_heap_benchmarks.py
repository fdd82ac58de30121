"""What the benchmarks of the Java heap compute from a log and from a recording's answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evaluation import java_heap_accuracy
from harness.jvms.heap_cases import Recorded
from harness.jvms.zoo import Held
from harness.measuring import pauses

G1 = """\
[0.412s] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->5M(64M) 3.250ms
[1.500s] GC(1) Pause Young (Concurrent Start) (G1 Humongous Allocation) 40M->21M(64M) 2.000ms
[1.500s] GC(2) Concurrent Mark Cycle
[1.530s] GC(2) Pause Remark 22M->22M(64M) 1.500ms
[1.533s] GC(2) Concurrent Mark Cycle 33.000ms
[2.750s] GC(3) Pause Full (System.gc()) 50M->20M(64M) 10.125ms
"""
ZGC = """\
[1.204s] GC(4) Pause Mark Start 0.012ms
[1.230s] GC(4) Concurrent Mark 25.5ms
[1.231s] GC(4) Pause Mark End 0.020ms
[1.240s] GC(4) Y: Pause Relocate Start 0.009ms
"""


def test_pauses_of_the_measured_time_count() -> None:
    assert pauses.read(G1, 0.0, 9.0) == pauses.Pauses(16.875, 10.125, 4)
    assert pauses.read(G1, 1.0, 2.0) == pauses.Pauses(3.5, 2.0, 2)
    found = pauses.read(ZGC, 0.0, 9.0)
    assert found.total == pytest.approx(0.041)
    assert (found.p99, found.count) == (0.020, 3)
    assert pauses.read(G1, 5.0, 9.0) == pauses.Pauses(0.0, 0.0, 0)


def test_the_99th_percentile_is_the_longest_of_a_hundred() -> None:
    log = "".join(f"[1.000s] GC({n}) Pause Young (Normal) 2M->1M(4M) {n}.000ms\n" for n in range(1, 201))
    assert pauses.read(log, 0, 2).p99 == 198.0


def _site(method: str, low: float, high: float) -> dict[str, Any]:
    bytes_ = {"estimate": (low + high) / 2, "low": low, "high": high}
    return {"stack": [{"name": "byte[]", "kind": "class"}, {"name": method}], "live_bytes": bytes_}


def test_a_run_is_judged_by_the_largest_site_of_each_method() -> None:
    methods = java_heap_accuracy.SITES
    sites = [_site(methods[0], 90, 110), _site(methods[0], 1, 3), _site(methods[1], 10, 20)]
    sites.append(_site(methods[2], 500, 700))
    java_heap = {
        "suspects": sites,
        "survivors": {"bytes": {"estimate": 800.0, "low": 700.0, "high": 900.0}},
        "books": {"heap_bytes": 853.0},
    }
    truth = dict(zip(methods, (100, 25, 600), strict=True))
    held = [Held(method, "byte[]", 1, size) for method, size in truth.items()]
    one = java_heap_accuracy.judge("G1", 7, Recorded(Path(), {"java_heap": java_heap}, held, 853), own=3)
    assert [one.sites[method].covered for method in methods] == [True, False, True]
    assert one.heap.covered
    assert java_heap_accuracy.too_rare([one], 0.9) == [f"G1: {methods[1]}"]
    row = java_heap_accuracy.table([one])[-1]
    assert row == "| G1 | 1 | 1 (1.000) | 0 (0.600) | 1 (1.000) | 1 (0.941) |"
