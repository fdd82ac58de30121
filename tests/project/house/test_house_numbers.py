"""Numbers that decide a verdict have a name, beside which their unit and their reason stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from harness.paths import ROOT

# None, one, several, half; every other number is somebody's choice.
PLAIN = {0.0, 0.5, 1.0, 2.0}
# A quotient's least divisor, a sum's error: below any figure that is shown.
ROUNDING = 1e-9


def bare(tree: ast.AST) -> Iterator[str]:
    """Floating numbers in the statements of functions; a default of a parameter has the parameter's name."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in (node for statement in function.body for node in ast.walk(statement)):
                if isinstance(node, ast.Constant) and isinstance(node.value, float) and chosen(node.value):
                    yield f"{node.lineno}: {node.value!r}"


def chosen(number: float) -> bool:
    return number not in PLAIN and number > ROUNDING


def test_numbers_of_the_analysis_have_names() -> None:
    files = sorted((ROOT / "src" / "offheap" / "analysis").rglob("*.py"))
    found = {path.relative_to(ROOT).as_posix(): list(bare(ast.parse(path.read_text()))) for path in files}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("return gone < 0.05 * allocated", ["2: 0.05"]),
        ("return clip(share, 0.25, 1.0)", ["2: 0.25"]),
        ("while high > 1e6: high = -high", ["2: 1000000.0"]),
        ("return 0.5 * whole / max(seconds, 1e-9)", []),
        ("return gone < _LITTLE * allocated", []),
    ],
)
def test_a_bare_number_is_found(line: str, found: list[str]) -> None:
    """GIVEN a function WHEN one of its lines has a number that somebody chose THEN the line is reported."""
    assert list(bare(ast.parse(f"def rule(share=0.3):\n  {line}"))) == found
