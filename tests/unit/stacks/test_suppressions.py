"""LeakSanitizer's suppression files: the matches, the rejected lines, and the cost of any pattern."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.simulation import MALLOC, java, native
from offheap.errors import UserError
from offheap.formats.suppressions import Suppression, parse, read

STACK = (
    MALLOC,
    native("inflateInit2_", "libz.so.1", "/build/zlib/inflate.c"),
    java("com.example.Shop$Cart.add", 7),
)


def one(pattern: str) -> Suppression:
    return Suppression(pattern, "f", 1)


@pytest.mark.parametrize(
    ("pattern", "covers"),
    [
        ("inflate", True),
        ("^inflate", True),
        ("^nflate", False),
        ("Init2_$", True),
        ("Init$", False),
        ("^inflateInit2_$", True),
        ("libz.so", True),
        ("zlib/*.c", True),
        ("^zlib", False),
        ("inf*Init", True),
        ("inf*Init$", False),
        ("^inf*2_$", True),
        ("com.example.*.add", True),
        ("Shop$Cart", True),
        ("Shop.java", True),
        ("INFLATE", False),
        ("z*z", False),
        ("inflateInit2_*inflateInit2_", False),
    ],
)
def test_patterns(pattern: str, covers: bool) -> None:
    assert one(pattern).covers(STACK) is covers


def by_regex(pattern: str, text: str) -> bool:
    """The same rules as a regular expression, an independent implementation."""
    start, end = pattern.startswith("^"), pattern.endswith("$") and len(pattern) > pattern.startswith("^")
    middle = pattern[start : len(pattern) - end]
    expression = ".*".join(re.escape(piece) for piece in middle.split("*"))
    begin, stop = "\\A" if start else "", "\\Z" if end else ""
    return re.search(f"{begin}{expression}{stop}", text, re.DOTALL) is not None


@given(st.text("ab*^$\n", min_size=1, max_size=8), st.text("ab^$\n", max_size=12))
def test_matching_agrees_with_a_regular_expression(pattern: str, text: str) -> None:
    assert one(pattern).matches(text) is by_regex(pattern, text), (pattern, text)


def test_a_hostile_pattern_takes_no_time() -> None:
    start = time.process_time()
    assert not one("a*" * 500 + "b").matches("a" * 20_000)
    assert not one("^" + "*a" * 500 + "*b$").matches("a" * 20_000)
    assert time.process_time() - start < 1


def test_a_file_with_comments_spaces_and_windows_ends() -> None:
    text = "\ufeff# known\r\n\r\n  leak:libfoo.so  \r\n#leak:none\n\tleak:^operator new(*$"
    assert [(s.pattern, s.line) for s in parse(text, "x")] == [("libfoo.so", 3), ("^operator new(*$", 5)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("leak:a\nfoo", "x:2 is not a suppression: 'foo'"),
        ("race:foo", "x:1 is not a suppression: 'race:foo'"),
        ("Leak:foo", "x:1 is not a suppression"),
        ("leak:", "x:1 suppresses everything"),
        ("leak:*", "x:1 suppresses everything"),
        ("leak:^*$", "x:1 suppresses everything"),
        ("\0\n", "x:1 is not a suppression"),
    ],
)
def test_lines_that_are_none(text: str, what: str) -> None:
    with pytest.raises(UserError, match=re.escape(what)):
        parse(text, "x")


@given(st.binary(max_size=200) | st.text().map(lambda text: f"leak:{text}".encode("utf-8", "replace")))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.supp"
    path.write_bytes(content)
    lines = [line.strip(b" \t\r") for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    wanted = [line for line in lines if line and not line.startswith(b"#")]
    if all(line.startswith(b"leak:") and line[5:].strip(b"^$*") for line in wanted):
        found = read(path)
        assert [str(suppression).encode("utf-8", "surrogateescape") for suppression in found] == wanted
        assert all(suppression.covers(STACK) in (True, False) for suppression in found)
    else:
        with pytest.raises(UserError, match=r"hostile\.supp:"):
            read(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path / "none")
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(UserError, match="larger than"):
        read("/dev/zero")
