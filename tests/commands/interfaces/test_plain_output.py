"""Reports on narrow terminals, and on streams with few characters."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.hostile.left_live_files import left
from harness.jvms.waiting_jvm import waiting_jvm
from harness.warm_command import warm
from offheap.report.text.encoding import never_fail
from offheap.report.text.width import fold

OFFHEAP = (sys.executable, "-m", "offheap")
RECORDINGS = (
    ("leaks", "R", "--all"),
    ("summary", "R"),
    ("tree", "R"),
    ("stats", "R"),
    ("check", "R"),
    ("diff", "R", "R", "--all"),
    ("report", "R", "-o", "-", "--format", "md"),
    ("report", "R", "-o", "-", "--format", "txt"),
)


def printed(*arguments: object, **variables: str) -> str:
    words, environment = tuple(map(str, arguments)), {**os.environ, "NO_COLOR": "1", **variables}
    if variables.keys() <= {"COLUMNS"}:
        return checked(warm(*words, env=environment))
    # The interpreter chooses its encodings when it starts.
    return checked(
        subprocess.run(
            [*OFFHEAP, *words], capture_output=True, timeout=120, env=environment, encoding="utf-8"
        )
    )


def checked(outcome: subprocess.CompletedProcess[str]) -> str:
    assert outcome.returncode in (0, 3), outcome.stderr  # 3: the gate cannot tell
    assert outcome.stderr == ""
    return outcome.stdout


@pytest.fixture(scope="module")
def recording(probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return left(probe_library, tmp_path_factory.mktemp("plain"))


def long_lines(text: str, columns: int) -> list[str]:
    """Lines that could be broken: a name stands whole beside its label, or alone."""
    lines = [line for line in text.splitlines() if len(line) > columns]
    return [line for line in lines if len(line.rpartition(" ")[0].rstrip()) > columns // 2]


@pytest.mark.parametrize("command", RECORDINGS[:6], ids=lambda command: command[0])
def test_forty_columns_break_between_words(command: tuple[str, ...], recording: Path) -> None:
    arguments = [str(recording) if word == "R" else word for word in command]
    wide = printed(*arguments, COLUMNS="200")
    narrow = printed(*arguments, COLUMNS="40")
    assert long_lines(narrow, 40) == []
    # No word is cut, and none is lost.
    assert narrow.split() == wide.split()


def test_a_jvm_in_forty_columns_and_in_ascii(
    jre: Callable[[int], Path], waiting_classes: Path, probe_library: Path
) -> None:
    with waiting_jvm(jre(17), waiting_classes, "-XX:NativeMemoryTracking=summary") as jvm:
        pid = str(jvm.pid)
        for command in (f"where {pid}", f"nmt {pid}", "ps", "clean --dry-run"):
            assert long_lines(printed(*command.split(), COLUMNS="40"), 40) == []
        for command in (f"where {pid} -v --tree", f"nmt {pid}", "ps", "where --all"):
            assert printed(*command.split(), PYTHONIOENCODING="ascii").isascii()
        bars = printed("where", pid, PYTHONIOENCODING="ascii")
        assert "############" in bars
        assert "\\u" not in bars


def test_an_option_stays_whole_in_forty_columns(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    """The reader copies it."""
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        assert "(-XX:NativeMemoryTracking=summary" in printed("where", jvm.pid, COLUMNS="40").split()


@pytest.mark.parametrize("command", RECORDINGS, ids=lambda command: " ".join(command[0::4]))
def test_every_report_is_told_in_ascii(command: tuple[str, ...], recording: Path) -> None:
    arguments = [str(recording) if word == "R" else word for word in command]
    text = printed(*arguments, PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "\\u2" not in text, "a plain character in place of each of our own"
    in_c = printed(*arguments, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert in_c.isascii()


def test_a_page_stays_what_it_says_it_is(recording: Path) -> None:
    page = printed("report", recording, "-o", "-", PYTHONIOENCODING="ascii")
    assert page == printed("report", recording, "-o", "-")


def test_what_a_stream_lacks_is_replaced_or_escaped() -> None:
    for errors in ("strict", "surrogateescape", "backslashreplace"):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="ascii", errors=errors)
        never_fail(stream)
        stream.write("█▌▏ a… Größe \udcff")
        stream.flush()
        assert raw.getvalue() == rb"##  a... Gr\xf6\xdfe \udcff"
    asked = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    never_fail(asked)
    assert asked.errors == "replace"


@given(st.text(alphabet=" ab\x1b[1m.", max_size=120), st.integers(10, 60))
def test_folding_loses_nothing(line: str, most: int) -> None:
    assert fold(line, most).split() == line.split()


def test_folded_below_the_second_cell() -> None:
    assert fold("  where       who owns RSS: heap", 28) == "  where       who owns RSS:\n              heap"
    assert fold("a" * 50, 20) == "a" * 50
    red = "\x1b[31mone\x1b[0m two"
    assert fold(red, 7) == red
