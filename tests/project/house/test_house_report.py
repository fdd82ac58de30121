"""A report renders what the analysis returns: no root is drawn there, no clock is read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.paths import ROOT

REPORT = ROOT / "src" / "offheap" / "report"
COMPUTING = {"numpy", "time", "math", "statistics", "random", "heapq"}
# What the way of writing a number asks: whether there is a number.
HARMLESS = {"isfinite", "isinf", "isnan", "inf"}
REASONS = {
    ("html/payload_series.py", "numpy"): "packs levels into small whole numbers for the page",
    ("metrics/openmetrics.py", "time"): "one reading serves the scrapes of a few seconds",
    ("metrics/bounded_server.py", "time"): "a client that is slow is cut off",
    ("tui/owners_screen.py", "time"): "paces its readings by the CPU that they take",
    ("tui/app.py", "time"): "names a file by the time of day",
}


def computing(path: Path) -> set[str]:
    """Modules with which a file computes; `math` where it is used for more than a question."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} - {"math"}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Attribute) and node.attr not in HARMLESS:
            found |= {ast.unparse(node.value)} & {"math"}
    return found & COMPUTING


def test_reports_compute_nothing() -> None:
    found = {
        (path.relative_to(REPORT).as_posix(), module)
        for path in REPORT.rglob("*.py")
        for module in computing(path)
    }
    assert found == set(REASONS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import numpy as np", {"numpy"}),
        ("from time import monotonic", {"time"}),
        ("import math\nshown = math.isfinite(1.0)", set()),
        ("import math\nerror = math.sqrt(2.0)", {"math"}),
        ("from math import sqrt", {"math"}),
        ("import json", set()),
    ],
)
def test_a_module_that_computes_is_found(text: str, found: set[str], tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(text)
    assert computing(path) == found
