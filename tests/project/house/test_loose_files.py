"""docs/architecture.md lists every file of the repository that is in no room."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from harness import needs
from harness.paths import ROOT

PAGE = ROOT / "docs" / "architecture.md"
ROW = re.compile(r"^\| (`[^|]+`) \|", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")
HOUSES = ("src/offheap/", "web/src/", "probe/", "tests/", "harness/", "benchmarks/", "examples/")
# The tables of these name the rooms below them.
RELATIVE = {"tests/": "| room of `tests/` |", "harness/": "| room of `harness/` |"}
# Rooms whose folders below are theirs: rooms of tests, programs, examples.
DEEP = ("tests/", "harness/", "benchmarks/", "examples/")


def table_after(page: str, heading: str) -> str:
    """The rows of the table that has this heading, or a part of it."""
    return page.partition(heading)[2].partition("\n\n")[0]


def rooms(page: str) -> set[str]:
    """Every folder that a table of rooms names, and the loose files of src/offheap."""
    found = {name for name in names(ROW.findall(page)) if name.startswith(HOUSES)}
    for house, heading in RELATIVE.items():
        found |= {house + name for name in names(ROW.findall(table_after(page, heading)))}
    return found - loose(page) - {"tests/", "harness/", "benchmarks/"}


def loose(page: str) -> set[str]:
    """Files and folders of the table of what is in no room."""
    return names(ROW.findall(table_after(page, "| file or folder |")))


def names(cells: Sequence[str]) -> set[str]:
    return {name for cell in cells for name in NAME.findall(cell)}


def covers(name: str, file: str, *, deep: bool) -> bool:
    """Is the file the named one, or in the named folder?  The room `probe/` has C only."""
    if not name.endswith("/"):
        return file == name
    folder = file.rpartition("/")[0] + "/"
    return (
        file.startswith(name)
        if deep
        else folder == name and (name != "probe/" or file.endswith((".c", ".h")))
    )


def faults(page: str, files: Sequence[str]) -> list[str]:
    """Files without a place, files with two, and loose names that no file has."""
    in_rooms = {
        file for file in files for room in rooms(page) if covers(room, file, deep=room.startswith(DEEP))
    }
    in_rooms |= {file for file in files if re.fullmatch(r"benchmarks/\w+/.*", file)}
    of_name = {name: {file for file in files if covers(name, file, deep=True)} for name in loose(page)}
    listed = {file for found in of_name.values() for file in found}
    return [
        *(f"{file} is in no room and not listed" for file in files if file not in in_rooms | listed),
        *(f"{file} is in a room and listed" for file in sorted(in_rooms & listed) if file in of_name),
        *(f"{name} is listed and gone" for name, found in sorted(of_name.items()) if not found),
    ]


def is_empty_package(name: str) -> bool:
    return name.endswith("/__init__.py") and not (ROOT / name).stat().st_size


@needs.unless((ROOT / ".git").exists(), "the files that Git has", "run in a clone")
def test_every_file_is_in_a_room_or_listed() -> None:
    # Git refuses a clone of another user.
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    # An empty __init__.py only makes a folder a package; what is deleted may not be committed yet.
    files = [name for name in said.split("\0") if (ROOT / name).is_file() and not is_empty_package(name)]
    assert len(files) > 500
    assert faults(PAGE.read_text(), files) == []


def test_a_file_without_a_place_is_noticed() -> None:
    page = (
        "| room | what it holds | may know |\n|---|---|---|\n"
        "| `src/offheap/cli/` | commands | every room |\n| `src/offheap/errors.py` | errors | nothing |\n\n"
        "| file or folder | what it holds |\n|---|---|\n| `Makefile`, `web/test/` | |\n| `gone.py` | |\n\n"
        "| room of `tests/` | what it asks |\n|---|---|\n| `unit/` | functions |\n"
    )
    files = [
        "Makefile",
        "new.py",
        "src/offheap/cli/run.py",
        "src/offheap/errors.py",
        "src/offheap/other/a.py",
    ]
    files += ["tests/unit/stacks/test_a.py", "tests/new/test_b.py", "web/test/a/b.ts", "benchmarks/cost/a.py"]
    assert faults(page, files) == [
        "new.py is in no room and not listed",
        "src/offheap/other/a.py is in no room and not listed",
        "tests/new/test_b.py is in no room and not listed",
        "gone.py is listed and gone",
    ]
    assert faults(
        page.replace("`gone.py`", "`src/offheap/cli/run.py`"), ["Makefile", "src/offheap/cli/run.py"]
    ) == [
        "src/offheap/cli/run.py is in a room and listed",
        "web/test/ is listed and gone",
    ]
