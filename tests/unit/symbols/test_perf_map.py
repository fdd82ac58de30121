"""Perf maps as HotSpot writes them, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.paths import DATA
from offheap.errors import UserError
from offheap.symbols.generated.generated_code import Code, GeneratedCode

MAP = DATA / "perf_map" / "17.map"


def of(data: bytes, folder: Path) -> GeneratedCode:
    path = folder / "perf.map"
    path.write_bytes(data)
    return GeneratedCode(path)


def test_methods_and_stubs_of_jdk_17() -> None:
    names = GeneratedCode(MAP)
    assert names.at(0x7F0769400560) == Code("java.lang.String.hashCode", True)
    assert names.at(0x7F0769400560 + 0x32F) == Code("java.lang.String.hashCode", True)
    assert names.at(0x7F0769400560 + 0x330) is None
    assert names.at(0x7F0769409DC0) == Code("com.acme.secret.Main$$Lambda$1/0x00007f0704001000.go", True)
    assert names.at(0x7F0770940B80) == Code("Interpreter", False)
    assert names.at(0x7F0770938C00) == Code("StubRoutines (1)", False)
    assert names.at(0) is None


def test_addresses_without_0x(tmp_path: Path) -> None:
    """As JDK 8's agents and other run times write them."""
    names = of(b"7f00 10 LazyCompile:~add test.js:1\n7f10 8 [C2] void a.B.<init>(int)\n", tmp_path)
    assert names.at(0x7F05) == Code("LazyCompile:~add test.js:1", False)
    assert names.at(0x7F10) == Code("a.B.<init>", True)


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """A JVM that is killed while it writes leaves a part of a line; the lines before it count."""
    data = MAP.read_bytes()[:700]
    whole = data.count(b"\n")
    for size in range(len(data)):
        try:
            names = of(data[:size], tmp_path)
        except UserError:
            assert b"\n" not in data[:size], "only a single, incomplete line is refused"
        else:
            assert len(names) in (data[:size].count(b"\n"), 1)
    assert len(of(data, tmp_path)) == whole


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 2 is not a line of a perf map"):
        of(b"10 10 a\nhello world\n", tmp_path)


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: None])
def test_no_file(make: object, tmp_path: Path) -> None:
    path = tmp_path / "perf.map"
    assert callable(make)
    make(path)
    with pytest.raises(UserError, match="cannot be read"):
        GeneratedCode(path)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.from_regex(rb"(?:[0-9a-f]{1,17} [0-9a-f]{1,17} .{0,20}\n){0,4}"))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    try:
        names = of(data, tmp_path_factory.getbasetemp())
    except UserError:
        return
    names.at(1 << 47)
