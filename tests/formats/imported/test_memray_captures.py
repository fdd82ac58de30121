"""Captures of memray, which its own reader reads in a program of its own."""

from __future__ import annotations

import importlib
import importlib.util
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import needs
from harness.plugins.rotation import seed
from harness.recordings.imported_profiles import SAMPLES, check, held_by, outcome, stacks_of
from offheap.children import memray_child
from offheap.errors import UserError
from offheap.formats.imported import formats
from offheap.formats.imported.events import memray_capture

PROGRAM = SAMPLES / "src" / "forget.py"
OPTIONS = {
    "whole": (),
    "aggregated": ("--aggregate",),
    "killed": (),
    "native": ("--native",),
}
# Each reading starts an interpreter, 0.25 s of CPU.
CUTS, CUTS_SLOW = 6, 300
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A format of each version: made by the memray that is here, all at once."""
    if importlib.util.find_spec("memray") is None:
        needs.skip("memray", ".venv/bin/pip install memray")
    folder = tmp_path_factory.mktemp("captures")
    made, running = {}, []
    for name, options in OPTIONS.items():
        made[name] = folder / f"{name}.bin"
        words = ["-m", "memray", "run", "-q", *options, "-o", str(made[name]), str(PROGRAM)]
        if name == "killed":
            words.append("killed")
        running.append(subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL))
    assert [one.wait(timeout=120) for one in running] == [0, 0, -signal.SIGKILL, 0]
    return made


def live_by_memray(path: Path) -> tuple[int, int]:
    """(blocks, bytes) that memray's own `leaks` reports count."""
    with importlib.import_module("memray").FileReader(path) as reader:
        found = list(reader.get_leaked_allocation_records(merge_threads=True))
    return sum(one.n_allocations for one in found), sum(one.size for one in found)


@pytest.mark.parametrize("name", OPTIONS)
def test_what_memray_s_reader_says_is_live(captures: dict[str, Path], name: str) -> None:
    profile = check(memray_capture.read([captures[name]]))
    assert (len(profile.live), profile.live["size"].sum()) == live_by_memray(captures[name])
    blocks, size = held_by(profile, "keep_one")
    assert blocks == 60
    assert 60 * 10_000 <= size < 60 * 10_100
    assert profile.births == (name != "aggregated")
    assert (memray_capture.AGGREGATED in profile.lacks) != profile.births
    assert (memray_capture.OPEN in profile.lacks) == (name == "killed")
    assert (memray_capture.NO_NATIVE in profile.lacks) == (name != "native")
    assert "forget.py" in profile.program
    assert profile.pid > 0
    assert profile.start == pytest.approx(captures[name].stat().st_mtime, abs=60)
    assert profile.process["rss_bytes"][-1] > 10 << 20


def test_blocks_have_births_threads_and_frees(captures: dict[str, Path]) -> None:
    """GIVEN a block each 20 ms THEN births over 1.2 s; what was freed is allocated, and not live."""
    profile = check(memray_capture.read([captures["whole"]]))
    number, stack = next(stacks_of(profile, "keep_one"))
    assert [(frame.name, frame.file.rpartition("/")[2], frame.line) for frame in stack[:3]] == [
        ("keep_one", "forget.py", 13),
        ("forget", "forget.py", 18),
        ("<module>", "forget.py", 30),
    ]
    births = sorted(profile.live["birth"][profile.live["stack"] == number].tolist())
    assert births[-1] - births[0] > 59 * 0.02 * 0.9  # longer on a busy machine
    worker, _ = next(stacks_of(profile, "worker"))
    whose = profile.live["thread"][profile.live["stack"] == worker].tolist()
    assert [profile.threads[place] for place in whose] == ["worker"]
    series = profile.series[profile.series["stack"] == number]
    assert series["live_blocks"].tolist() == sorted(series["live_blocks"].tolist())
    gone = profile.series[(profile.series["live_bytes"] == 0) & (profile.series["allocated_bytes"] > 0)]
    assert len(gone)
    assert len(profile.process) > 50


def test_native_functions_stand_between_python_s(captures: dict[str, Path]) -> None:
    """GIVEN a capture with --native THEN native frames are inside those of Python, whose order stays."""
    profile = check(memray_capture.read([captures["native"]]))
    assert memray_capture.NATIVE in profile.lacks
    _, stack = next(stacks_of(profile, "keep_one"))
    names = [frame.name for frame in stack]
    assert 0 < names.index("keep_one") < names.index("forget")


def test_the_format_is_told_by_the_content(captures: dict[str, Path]) -> None:
    for path in captures.values():
        first = next(reader for reader in formats.READERS if reader.recognises(path.read_bytes()[:64]))
        assert first.FORMAT == "memray"


def test_one_capture_at_a_time(captures: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="one at a time"):
        memray_capture.read(list(captures.values()))


def test_without_memray_one_line_says_how_to_install_it(
    captures: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"not installed here; pip install 'offheap\[memray\]'"):
        memray_capture.read([captures["whole"]])


def test_a_capture_of_another_version(captures: dict[str, Path], tmp_path: Path) -> None:
    """GIVEN the number of another format in the header THEN the line says what to install."""
    content = bytearray(captures["killed"].read_bytes())
    content[7] += 1
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    assert "was written by another version of memray" in str(outcome(memray_capture, path))


@pytest.mark.parametrize("name", ["whole", "killed"])
def test_cut_anywhere(captures: dict[str, Path], name: str, tmp_path: Path) -> None:
    """GIVEN a capture that ends at any byte THEN a profile of what is there, or one UserError."""
    cut(captures[name], CUTS, tmp_path / "cut.bin")


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_cut_at_many_bytes(captures: dict[str, Path], name: str, tmp_path: Path) -> None:
    """75 seconds of CPU for each capture."""
    cut(captures[name], CUTS_SLOW, tmp_path / "cut.bin")


def cut(capture: Path, cuts: int, path: Path) -> None:
    data = capture.read_bytes()
    step = len(data) // cuts + 1
    for end in range(seed() % step, len(data), step):
        path.write_bytes(data[:end])
        memray_capture.recognises(data[:end])
        outcome(memray_capture, path)


@FEW
@given(data=st.data())
def test_changed_anywhere(captures: dict[str, Path], data: st.DataObject, tmp_path: Path) -> None:
    """GIVEN bytes that differ, which make memray's reader crash at times THEN the same."""
    content = bytearray(captures["killed"].read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path = tmp_path / "changed.bin"
    path.write_bytes(content)
    outcome(memray_capture, path)


def test_a_reader_that_crashes_or_answers_nonsense(
    captures: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a child that a damaged file took down THEN the signal is said; whatever it writes is checked."""
    child = tmp_path / "child.py"
    monkeypatch.setattr(memray_child, "__file__", str(child))
    path = captures["whole"]
    child.write_text("import os\nos.kill(os.getpid(), 11)\n")
    assert "ended by signal 11" in str(outcome(memray_capture, path))
    child.write_text("print('no archive')\n")
    assert "is not read by memray" in str(outcome(memray_capture, path))
    real = tmp_path / "real.py"
    real.write_bytes(Path(memray_child.__spec__.origin or "").read_bytes())
    answer = subprocess.run(
        [sys.executable, real, path, str(2 << 30)], check=True, capture_output=True, timeout=60
    ).stdout
    chance = random.Random(seed())
    for _ in range(200):
        torn = bytearray(answer)
        for _ in range(chance.randrange(1, 5)):
            torn[chance.randrange(len(torn))] = chance.randrange(256)
        try:
            check(memray_capture._Capture(path, bytes(torn)).profile([]))
        except (UserError, ValueError, KeyError, IndexError, TypeError, OverflowError, AssertionError):
            continue  # `read` makes a UserError of all but the last
