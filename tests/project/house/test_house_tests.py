"""The imports that tests, benchmarks and the harness may have of one another, and their module paths."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.paths import BENCHMARKS, DOCS, HARNESS, ROOT, TESTS, WEB

PACKAGE = ROOT / "src" / "offheap"
EXAMPLES = ROOT / "examples"
ROW = re.compile(r"^\| `((?:tests|benchmarks|harness|examples/\w+)/)` \|[^|]+\| ([^|]+) \|$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def may_know(page: str) -> dict[Path, set[str]]:
    """By room: the packages of this repository that its files may know, from docs/architecture.md."""
    return {ROOT / room: set(re.findall(r"`(\w+)`", known)) for room, known in ROW.findall(page)}


MAY_KNOW = may_know((DOCS / "architecture.md").read_text())
OURS = {"harness", "benchmarks", "tests", "offheap", *(path.stem for path in TESTS.rglob("*.py"))}
MOST_MODULES = 12  # in one room: what a reader takes in at a glance
# One module a command, named like the command: a reader needs no second level.
LARGE_ROOMS = {PACKAGE / "cli"}
CALENDAR = {"today", "toordinal", "weekday", "isocalendar"}


def files(room: Path) -> list[Path]:
    return sorted(room.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def edits_the_path(tree: ast.AST) -> bool:
    return any(
        (
            isinstance(node, ast.Attribute)
            and node.attr == "path"
            and isinstance(node.value, ast.Name)
            and node.value.id == "sys"
        )
        or (isinstance(node, ast.Attribute) and node.attr == "syspath_prepend")
        for node in ast.walk(tree)
    )


def strangers(text: str, known: set[str]) -> set[str]:
    """The packages of this repository that a Python file imports and may not know."""
    return set(imported(ast.parse(text))) & OURS - known


def test_every_room_beside_the_package_has_a_row() -> None:
    examples = {path for path in EXAMPLES.iterdir() if path.is_dir()}
    assert set(MAY_KNOW) == {TESTS, BENCHMARKS, HARNESS, *examples}


def test_a_row_decides_what_a_room_may_know() -> None:
    page = "| `tests/` | tests | `offheap`, `harness` |\n| `examples/a/` | programs | nothing |\n"
    assert may_know(page) == {TESTS: {"offheap", "harness"}, EXAMPLES / "a": set()}
    text = "import harness\nfrom benchmarks.cost import budget\nimport os"
    assert strangers(text, {"offheap", "harness"}) == {"benchmarks"}
    assert strangers(text, set()) == {"benchmarks", "harness"}


@pytest.mark.parametrize("room", sorted(EXAMPLES.iterdir()), ids=lambda room: room.name)
def test_examples_include_only_what_lies_beside_them(room: Path) -> None:
    sources = [path for path in room.rglob("*.*") if path.suffix in (".c", ".cpp", ".h")]
    assert sources
    wrong = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources
        for name in INCLUDE.findall(path.read_text())
        if not (path.parent / name).resolve().is_relative_to(room)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", MAY_KNOW, ids=lambda room: room.name)
def test_each_room_imports_what_it_may_know(room: Path) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(room)
        for name in strangers(path.read_text(), MAY_KNOW[room])
    }
    assert not wrong


@pytest.mark.parametrize("room", [*MAY_KNOW, PACKAGE, ROOT / "probe", WEB], ids=lambda room: room.name)
def test_no_file_changes_where_modules_are_found(room: Path) -> None:
    assert [path.name for path in files(room) if edits_the_path(ast.parse(path.read_text()))] == []


def test_a_class_name_means_one_thing() -> None:
    """A Protocol may have the name of the class that it describes."""
    places: dict[str, list[str]] = {}
    for path in files(PACKAGE):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                places.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    twice = {name: its for name, its in places.items() if len(its) > 1 and not name.startswith("_")}
    assert twice == {}


def test_programs_hide_no_library() -> None:
    """Python looks for modules in a program's folder first."""
    names = [path.stem for path in (PACKAGE / "children").glob("*.py") if path.name != "__init__.py"]
    assert names
    assert [name for name in names if importlib.util.find_spec(name)] == []


def test_benchmarks_have_one_command_line() -> None:
    """It comes from `harness.measuring.runner`: --write puts a table into its document."""
    own = {
        path.relative_to(ROOT).as_posix()
        for path in files(BENCHMARKS)
        if "argparse" in imported(ast.parse(path.read_text()))
    }
    assert own == set()


def test_chance_chooses_nothing_in_a_benchmark() -> None:
    """Without a seed two runs of one commit measure different programs, and cannot be compared."""
    unseeded = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files(BENCHMARKS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (
            (ast.unparse(node.func).startswith("random.") and ast.unparse(node.func) != "random.Random")
            or (ast.unparse(node.func).endswith(("random.Random", "default_rng")) and not node.args)
        )
    }
    assert unseeded == set()


def test_the_calendar_chooses_no_test() -> None:
    """`date.today()` in a test or a plugin would let the day decide what runs."""
    wrong = {
        path.name
        for path in [*files(TESTS), *files(HARNESS / "plugins")]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALENDAR
    }
    assert not wrong


@pytest.mark.parametrize("house", [PACKAGE, TESTS, HARNESS, BENCHMARKS], ids=lambda house: house.name)
def test_rooms_stay_small(house: Path) -> None:
    counts = Counter(path.parent for path in files(house) if path.name != "__init__.py")
    large = {room for room, count in counts.items() if count > MOST_MODULES} - LARGE_ROOMS
    assert {room.relative_to(ROOT).as_posix(): counts[room] for room in large} == {}
