"""docs/architecture.md describes the code: its table of rooms is compared with every import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import pytest

from harness.paths import BENCHMARKS, HARNESS, ROOT, TESTS

PAGE = ROOT / "docs" / "architecture.md"
PYTHON = "src/offheap/"
WEB = "web/src/"
# Every room may know these.
FOR_EVERYBODY = {PYTHON + "errors.py", PYTHON + "quantities.py"}

# Python's modules that give access to the clock, chance, files or processes.
IMPURE = {"datetime", "os", "pathlib", "random", "signal", "socket", "subprocess", "threading", "time"}

Edges = Mapping[str, set[str]]


@dataclass(frozen=True, slots=True)
class Row:
    """A room, or a single file, in the page's tables.  `everything`: it may know every room."""

    name: str
    known: tuple[str, ...]
    everything: bool


def rows(page: str, house: str) -> dict[str, Row]:
    """The rows about `house`, by name; the rooms that they may know as paths below the repository."""
    found: dict[str, Row] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`([^`]+)`", cells[0])
        if len(cells) != 3 or name is None or not name[1].startswith(house):
            continue
        known = tuple(house + word for word in re.findall(r"`([^`]+)`", cells[2]))
        assert name[1] not in found, f"{name[1]} has two rows"
        found[name[1]] = Row(name[1], known, cells[2] == "every room")
    return found


def room_of(file: str, table: Mapping[str, Row]) -> str | None:
    """The row of a file: its own, or that of its folder."""
    folder = file.rpartition("/")[0] + "/"
    return file if file in table else folder if folder in table else None


def allows(row: Row, file: str) -> bool:
    folder = file.rpartition("/")[0]
    if row.everything or folder + "/" == row.name:
        return True
    return any(
        file == known or folder == known or (known.endswith("/*") and f"{folder}/".startswith(known[:-1]))
        for known in row.known
    )


def broken(edges: Edges, table: Mapping[str, Row], for_everybody: set[str]) -> list[str]:
    """Imports that no row allows, and files without a row."""
    wrong = [f"{file} has no row" for file in sorted(edges) if room_of(file, table) is None]
    for file, targets in sorted(edges.items()):
        room = room_of(file, table)
        wrong += [
            f"{file} may not know {target}"
            for target in sorted(targets - for_everybody)
            if room is not None and not allows(table[room], target)
        ]
    return wrong


def circle(edges: Edges) -> list[str]:
    """Files that import each other in a circle; [] without one."""
    done: set[str] = set()
    for start in sorted(edges):
        path: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(edges[start])))]
        on_path = {start}
        while path and start not in done:
            file, others = path[-1]
            following = next((other for other in others if other not in done), None)
            if following is None:
                done.add(file)
                on_path.discard(file)
                path.pop()
            elif following in on_path:
                names = [name for name, _ in path]
                return [*names[names.index(following) :], following]
            else:
                on_path.add(following)
                path.append((following, iter(sorted(edges.get(following, ())))))
    return []


def python_imports(root: Path, *packages: Path) -> dict[str, set[str]]:
    """By file: the files of the packages that it imports, including lazy imports and imports for types."""
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for package in packages
        for path in package.rglob("*.py")
    }
    names = {path: path.relative_to(root).as_posix() for path in modules.values()}
    return {
        name: {names[modules[module]] for module in _imported(path, modules) if modules[module] != path}
        for path, name in names.items()
        if path.name != "__init__.py" or path.read_text().strip()
    }


def _imported(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules:
                    yield whole
                elif node.module and node.module in modules:
                    yield node.module


def standard_modules(path: Path) -> set[str]:
    """The first names of all modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def typescript_imports(source: Path) -> dict[str, set[str]]:
    """By file: the files that it imports or exports from, types included."""
    pattern = re.compile(r'^(?:import|export)\b[^;"]*?(?:from\s+)?"(\.[^"]+)"', re.MULTILINE)
    found = {}
    for path in source.rglob("*.ts"):
        targets = [(path.parent / name).resolve() for name in pattern.findall(path.read_text())]
        found[_web(path, source)] = {_web(target, source) for target in targets if target.suffix == ".ts"}
    return found


def _web(path: Path, source: Path) -> str:
    return f"web/src/{path.relative_to(source).as_posix()}"


@pytest.fixture(scope="module")
def of_python() -> dict[str, set[str]]:
    return python_imports(ROOT, ROOT / "src" / "offheap")


@pytest.fixture(scope="module")
def of_web() -> dict[str, set[str]]:
    return typescript_imports(ROOT / "web" / "src")


def test_python_imports_what_its_rooms_may_know(of_python: Edges) -> None:
    assert broken(of_python, rows(PAGE.read_text(), PYTHON), FOR_EVERYBODY) == []


def test_typescript_imports_what_its_rooms_may_know(of_web: Edges) -> None:
    assert broken(of_web, rows(PAGE.read_text(), WEB), set()) == []


def test_no_module_knows_itself_by_way_of_others(of_web: Edges) -> None:
    everything = python_imports(ROOT, ROOT / "src" / "offheap", HARNESS, BENCHMARKS, TESTS)
    assert {name.partition("/")[0] for name in everything} == {"src", "harness", "benchmarks", "tests"}
    assert circle(everything) == []
    assert circle(of_web) == []


def test_analysis_has_no_clock_and_no_process() -> None:
    """The result of analysis depends on the recording alone: a second run gives the same."""
    for path in (ROOT / "src" / "offheap" / "analysis").rglob("*.py"):
        assert standard_modules(path) & IMPURE == set(), path


def beyond_a_command(tree: ast.AST) -> Iterator[str]:
    """Waits, loops that go on after an exception, and numbers that decide without a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "sleep":
            yield f"{node.lineno}: sleep"
        elif isinstance(node, (ast.For, ast.While)):
            yield from (f"{inner.lineno}: retry" for inner in ast.walk(node) if isinstance(inner, ast.Try))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            yield from (f"{one.lineno}: range to {one.value!r}" for one in node.args if is_bare(one))
        elif isinstance(node, ast.BoolOp):
            yield from (f"{one.lineno}: or {one.value!r}" for one in node.values if is_bare(one))
        elif isinstance(node, ast.IfExp):
            yield from (
                f"{one.lineno}: else {one.value!r}" for one in (node.body, node.orelse) if is_bare(one)
            )
        elif isinstance(node, ast.Compare):
            yield from (f"{one.lineno}: limit {one.value!r}" for one in node.comparators if is_bare(one))


def is_bare(node: ast.AST) -> TypeGuard[ast.Constant]:
    """A number other than none, one, several, and all in percent."""
    numbers = (int, float)
    return isinstance(node, ast.Constant) and type(node.value) in numbers and node.value not in (0, 1, 2, 100)


def test_commands_do_not_wait_and_judge() -> None:
    """A command parses, calls and renders: waits, retries and thresholds belong in a room below."""
    for path in (ROOT / "src" / "offheap" / "cli").rglob("*.py"):
        assert list(beyond_a_command(ast.parse(path.read_text()))) == [], path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("time.sleep(1)", ["1: sleep"]),
        ("while True:\n  try: f()\n  except OSError: pass", ["2: retry"]),
        ("for n in range(2, 1000): f(n)", ["1: range to 1000"]),
        ("show(args.top or 20)", ["1: or 20"]),
        ("show(everything if args.all else 10)", ["1: else 10"]),
        ("if seconds > 5.5: f()", ["1: limit 5.5"]),
        ("for one in several: f(one or MOST if len(several) > 1 else 0)", []),
    ],
)
def test_what_is_beyond_a_command_is_seen(line: str, found: list[str]) -> None:
    assert list(beyond_a_command(ast.parse(line))) == found


@pytest.mark.parametrize("house", [PYTHON, WEB])
def test_every_row_is_about_something(house: str) -> None:
    """GIVEN a renamed room WHEN the page is read THEN neither its own row nor another has the old name."""
    for row in rows(PAGE.read_text(), house).values():
        assert (ROOT / row.name).exists(), f"{row.name} is gone"
        for known in row.known:
            assert (ROOT / known.removesuffix("/*")).exists(), f"{row.name} may know {known}, which is gone"


def test_a_forbidden_import_is_seen(tmp_path: Path) -> None:
    """GIVEN a house of two rooms WHEN the lower one imports the upper one, even lazily THEN it is named."""
    page = (
        "| `src/offheap/low/` | floor | nothing |\n"
        "| `src/offheap/high/` | roof | `low` |\n"
        "| `src/offheap/loose.py` | a file | `high/*` |\n"
    )
    for name, text in {
        "low/a.py": "def f():\n    from offheap.high import b\n",
        "low/c.py": "from offheap import loose\n",
        "high/b.py": "from offheap.low import a\nfrom offheap.high.d import x\n",
        "high/d.py": "x = 1\n",
        "loose.py": "import offheap.high.b\n",
        "other.py": "",
    }.items():
        path = tmp_path / "src" / "offheap" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    edges = python_imports(tmp_path, tmp_path / "src" / "offheap")
    assert broken(edges, rows(page, PYTHON), set()) == [
        "src/offheap/other.py has no row",
        "src/offheap/low/a.py may not know src/offheap/high/b.py",
        "src/offheap/low/c.py may not know src/offheap/loose.py",
    ]
    assert circle(edges) == ["src/offheap/high/b.py", "src/offheap/low/a.py", "src/offheap/high/b.py"]


def test_a_circle_across_packages_is_seen(tmp_path: Path) -> None:
    for name, text in {
        "harness/a.py": "from benchmarks import b\n",
        "benchmarks/b.py": "import harness.a\n",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    edges = python_imports(tmp_path, tmp_path / "harness", tmp_path / "benchmarks")
    assert circle(edges) == ["benchmarks/b.py", "harness/a.py", "benchmarks/b.py"]


def test_typescript_imports_are_seen(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "model.ts").write_text(
        'import { a,\n  b } from "./views/list.ts";\nimport "./views/style.css";\n'
    )
    (tmp_path / "views" / "list.ts").write_text(
        'export type { A } from "../model.ts";\nimport "./side.ts";\n'
    )
    (tmp_path / "views" / "side.ts").write_text('const text = "../model.ts";\n')
    found = typescript_imports(tmp_path)
    assert found == {
        "web/src/model.ts": {"web/src/views/list.ts"},
        "web/src/views/list.ts": {"web/src/model.ts", "web/src/views/side.ts"},
        "web/src/views/side.ts": set(),
    }
    table = rows("| `web/src/` | model | nothing |\n| `web/src/views/` | views | `model.ts` |", WEB)
    assert broken(found, table, set()) == ["web/src/model.ts may not know web/src/views/list.ts"]
    assert circle(found) == ["web/src/model.ts", "web/src/views/list.ts", "web/src/model.ts"]
