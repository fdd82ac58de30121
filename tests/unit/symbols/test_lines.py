"""Addresses to files, lines and inlined chains; binutils is the oracle."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import needs
from harness.native.elf_images import NOWHERE, SOURCES, build_id, has_the_chain, program, run, symbols
from offheap.children import convert
from offheap.errors import UserError
from offheap.proc.images.elf import ElfImage
from offheap.symbols import Symbol, Symbolizer, lines

pytestmark = pytest.mark.usefixtures("symbol_cache")
needs_symbolic = needs.unless(lines.available(), "symbolic", "pip install symbolic")


@needs_symbolic
def test_inlined_chain(inlined: Path) -> None:
    address = symbols(inlined)["allocation_site"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    (chain,) = symbolizer.resolve(str(inlined), build_id(inlined), [address])
    assert has_the_chain(chain)
    assert not symbolizer.problems


@needs_symbolic
def test_lines_of_an_image_linked_to_a_fixed_address(tmp_path: Path) -> None:
    compiler = program("g++")
    path = tmp_path / "libfixed.so"
    options = ["-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id", "-Wl,-Ttext-segment=0x10000000"]
    run([compiler, *options, SOURCES / "inlined.cpp", "-o", path])
    address = symbols(path)["allocation_site"][0]
    assert address > 0x10000000
    (chain,) = Symbolizer(debug_directories=NOWHERE).resolve(str(path), build_id(path), [address])
    assert has_the_chain(chain)


def test_without_lines_the_function_still_has_its_name(inlined: Path) -> None:
    address = symbols(inlined)["allocation_site"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    assert symbolizer.resolve(str(inlined), build_id(inlined), [address]) == [
        (Symbol("deep::outer(unsigned long)"),)
    ]
    assert not symbolizer.problems


def test_lines_asked_for_and_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "available", lambda: False)
    with pytest.raises(UserError, match="pip install symbolic"):
        Symbolizer(dwarf=True)


def test_without_symbolic_it_says_what_would_have_names(
    inlined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "available", lambda: False)
    address = symbols(inlined)["allocation_site"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    (chain,) = symbolizer.resolve(str(inlined), build_id(inlined), [address])
    assert chain == (Symbol("deep::outer(unsigned long)"),)
    assert "pip install symbolic" in symbolizer.problems[str(inlined)]


@needs_symbolic
def test_addr2line_agrees(images: Path) -> None:
    """Every instruction of a C++ library, and of a C one that GCC may split and clone."""
    compiler, addr2line = program("g++"), program("addr2line")
    path = images / "libgcc-made.so"
    source = SOURCES / "inlined.cpp"
    run([compiler, "-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id", source, "-o", path])
    at = symbols(path)
    places = [at["_ZN4deep5outerEm"], at["plain_c_entry"]]
    addresses = [address for start, size in places for address in range(start, start + size)]
    answers = run([addr2line, "-afiCe", path, *map(hex, addresses)]).split("0x")[1:]
    ours = Symbolizer(debug_directories=NOWHERE).resolve(str(path), build_id(path), addresses)
    for answer, chain in zip(answers, ours, strict=True):
        rows = answer.splitlines()[1:]
        functions, spots = rows[::2], [row.partition(" (")[0] for row in rows[1::2]]
        # addr2line gives a function without parameters if DWARF has no linkage name for it.
        assert [symbol.name.partition("(")[0].split()[-1] for symbol in chain] == [
            name.partition("(")[0].split()[-1] for name in functions
        ]
        assert [f"{symbol.file}:{symbol.line or '?'}" for symbol in chain] == spots


@needs_symbolic
def test_slow_conversion_is_kept_and_broken_one_made_again(
    inlined: Path, symbol_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve() -> tuple[Symbol, ...]:
        address = symbols(inlined)["allocation_site"][0]
        return Symbolizer(debug_directories=NOWHERE).resolve(str(inlined), build_id(inlined), [address])[0]

    monkeypatch.setattr(lines, "_WORTH_KEEPING", 3600.0)
    assert has_the_chain(resolve())
    assert list(symbol_cache.iterdir()) == []
    monkeypatch.setattr(lines, "_WORTH_KEEPING", 0.0)
    assert has_the_chain(resolve())
    (kept,) = symbol_cache.iterdir()
    assert kept.name == f"{hashlib.sha256(inlined.read_bytes()).hexdigest()}.symcache"
    kept.write_bytes(kept.read_bytes()[:100])
    assert has_the_chain(resolve())
    monkeypatch.setattr(lines, "_convert", lambda *_: pytest.fail("it was kept"))
    assert has_the_chain(resolve())


@needs_symbolic
def test_a_library_with_another_ones_build_id_has_no_part_in_its_lines(
    tmp_path: Path, symbol_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file states its own build-id; the cache may be root's, and the file any user's."""
    compiler = program("g++")
    monkeypatch.setattr(lines, "_WORTH_KEEPING", 0.0)
    source = (SOURCES / "inlined.cpp").read_text()
    found = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "inlined.cpp").write_text("\n" * 10 * number + source)
        path = folder / "libinlined.so"
        options = ["-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef"]
        run([compiler, *options, folder / "inlined.cpp", "-o", path])
        address = symbols(path)["allocation_site"][0]
        symbolizer = Symbolizer(debug_directories=NOWHERE)
        found.append(symbolizer.resolve(str(path), build_id(path), [address])[0])
    one, other = found
    assert [symbol.line + 10 for symbol in one] == [symbol.line for symbol in other]
    assert len(list(symbol_cache.iterdir())) == 2


@needs_symbolic
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_that_others_may_write_to_is_not_used(
    mode: int, inlined: Path, symbol_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_WORTH_KEEPING", 0.0)
    symbol_cache.mkdir(parents=True)
    symbol_cache.chmod(mode)
    address = symbols(inlined)["allocation_site"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    assert has_the_chain(symbolizer.resolve(str(inlined), build_id(inlined), [address])[0])
    assert list(symbol_cache.iterdir()) == []


@needs_symbolic
def test_cache_folder_that_cannot_be_written(
    inlined: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the folder's place")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    address = symbols(inlined)["allocation_site"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    assert has_the_chain(symbolizer.resolve(str(inlined), build_id(inlined), [address])[0])


@needs_symbolic
def test_broken_debug_information_costs_only_the_lines(inlined: Path, tmp_path: Path) -> None:
    data = bytearray(inlined.read_bytes())
    with ElfImage.open(inlined) as image:
        for name in (".debug_info", ".debug_abbrev", ".debug_line"):
            section = image.section(name)
            assert section
            data[section.offset : section.offset + section.size] = b"\xff" * section.size
    path = tmp_path / "libbroken.so"
    path.write_bytes(data)
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    address = symbols(path)["allocation_site"][0]
    assert symbolizer.resolve(str(path), build_id(path), [address]) == [
        (Symbol("deep::outer(unsigned long)"),)
    ]


@needs_symbolic
def test_conversion_is_stopped_at_its_memory_limit(
    inlined: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(str(convert.__file__)).read_text()
    tight = tmp_path / "convert.py"
    assert "MEMORY = 3 << 30" in source
    tight.write_text(source.replace("MEMORY = 3 << 30", "MEMORY = 1 << 20"))
    monkeypatch.setattr(convert, "__file__", str(tight))
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    address = symbols(inlined)["allocation_site"][0]
    (chain,) = symbolizer.resolve(str(inlined), build_id(inlined), [address])
    assert chain == (Symbol("deep::outer(unsigned long)"),)
    assert "its lines are missing" in symbolizer.problems[str(inlined)]


@needs_symbolic
def test_symbolic_leaves_the_environment_alone(inlined: Path) -> None:
    code = (
        "import os, sys; from offheap.symbols import Symbolizer\n"
        "before = dict(os.environ)\n"
        "Symbolizer().resolve(sys.argv[1], sys.argv[2], [1])\n"
        "assert 'symbolic.symcache' in sys.modules\n"
        "sys.exit(before != dict(os.environ))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RUST_BACKTRACE"}
    command = [sys.executable, "-c", code, str(inlined), build_id(inlined)]
    assert subprocess.run(command, env=environment, timeout=120, check=False).returncode == 0
