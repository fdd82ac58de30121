"""Each room of probe/ knows only the rooms that docs/architecture.md grants it; no includes form a cycle."""

from __future__ import annotations

import re
import shutil
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from harness.paths import PROBE

TABLE = PROBE.parent / "docs" / "architecture.md"
TOP = ""  # the room of the files beside build.py
ROW = re.compile(r"^\| `probe/([a-z_]*)/?`[^|]*\|[^|]+\| ([^|]+) \|$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def rooms() -> dict[str, set[str]]:
    """The rooms that each room may know, from the document."""
    section = TABLE.read_text().partition("## The rooms of the probe\n")[2].partition("\n## ")[0]
    known = {}
    for room, may_know in ROW.findall(section):
        names = set(re.findall(r"`probe/([a-z_]*)/?`", may_know))
        known[room] = {*names, room}
    return known


def room_of(name: str) -> str:
    folder, slash, _ = name.partition("/")
    return folder if slash else TOP


def includes(probe: Path) -> dict[str, list[str]]:
    """Every file of the library with its includes of the probe's own files."""
    found = {}
    for path in sorted(probe.rglob("*.[ch]")):
        name = path.relative_to(probe).as_posix()
        if room_of(name) != "tests":
            found[name] = INCLUDE.findall(path.read_text())
    return found


def strangers(probe: Path) -> list[str]:
    """Includes that the room of a file does not allow, or that are not written from probe/ on."""
    known = rooms()
    return [
        f"{name} includes {other}"
        for name, others in includes(probe).items()
        for other in others
        if not (probe / other).is_file() or room_of(other) not in known[room_of(name)]
    ]


def cycle(probe: Path) -> list[str]:
    """Units (a source and its header) that include each other in a ring; empty without one."""
    units: dict[str, set[str]] = {}
    for name, others in includes(probe).items():
        unit = name.rpartition(".")[0]
        units.setdefault(unit, set()).update(other.rpartition(".")[0] for other in others)
    for unit, included in units.items():
        included.discard(unit)
    try:
        TopologicalSorter(units).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_the_table_has_each_room() -> None:
    folders = {path.name for path in PROBE.iterdir() if path.is_dir() and list(path.glob("*.[ch]"))}
    assert set(rooms()) == folders - {"tests"} | {TOP}


def test_no_room_knows_a_stranger() -> None:
    assert strangers(PROBE) == []


def test_no_unit_includes_itself_by_others() -> None:
    assert cycle(PROBE) == []


@pytest.mark.parametrize("include", ["start/start_stop.h", "cfi.h"])
def test_a_stranger_is_noticed(include: str, tmp_path: Path) -> None:
    probe = Path(shutil.copytree(PROBE, tmp_path / "probe"))
    with open(probe / "unwind" / "cfi.c", "a") as file:
        file.write(f'#include "{include}"\n')
    assert strangers(probe) == [f"unwind/cfi.c includes {include}"]


def test_a_cycle_is_noticed(tmp_path: Path) -> None:
    """GIVEN that budget includes sampler WHEN sampler includes budget THEN the two are a ring."""
    probe = Path(shutil.copytree(PROBE, tmp_path / "probe"))
    with open(probe / "sampling" / "sampler.h", "a") as file:
        file.write('#include "sampling/budget.h"\n')
    assert strangers(probe) == []
    assert set(cycle(probe)) == {"sampling/sampler", "sampling/budget"}
