"""Addresses to functions and their names, in real libraries; binutils is the oracle."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import needs
from harness.native.elf_images import build_id, names, program, run, shared_library, symbols
from offheap.proc.images.elf import SECTION_EXECUTE, SYMBOL, ElfImage, SymbolTable
from offheap.symbols import Symbolizer, lines
from offheap.symbols.functions import FunctionTable
from offheap.symbols.names import demangle, plain

pytestmark = pytest.mark.usefixtures("symbol_cache")


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def of_machine(images: Path, request: pytest.FixtureRequest) -> Path:
    machine: str = request.param
    return shared_library("inlined.cpp", images / f"lib{machine}.so", machine=machine)


# ---- functions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["libzip.so", "libjvm.so", "libjava.so"])
def test_every_exported_function_resolves_to_itself(jres: dict[int, Path], library: str) -> None:
    for java in jres.values():
        path = next((java.parent.parent / "lib").rglob(library))
        rows = {name: at for name, at in symbols(path, ".dynsym").items() if at[1]}
        with ElfImage.open(path) as image:
            code = [section for section in image.sections if section.flags & SECTION_EXECUTE]
        spans = [range(section.address, section.address + section.size) for section in code]
        functions = {name: at for name, (at, _) in rows.items() if any(at in span for span in spans)}
        assert len(functions) >= 10
        by_address: dict[int, set[str]] = {}
        for name, address in functions.items():
            by_address.setdefault(address, set()).add(demangle(plain(name)))
        found = names(path, *by_address)
        for name, expected in zip(found, by_address.values(), strict=True):
            assert name in expected


def test_nm_agrees_on_libjvm(jre: Callable[[int], Path]) -> None:
    path = jre(17).parent.parent / "lib/server/libjvm.so"
    known: dict[int, set[str]] = {}
    for line in run([program("nm"), "--defined-only", path]).splitlines():
        address, kind, name = line.split()
        if kind in "TtWi":
            known.setdefault(int(address, 16), set()).add(demangle(plain(name)))
    sizes = {address: size for address, size in symbols(path).values() if size}
    chosen = random.Random(17).sample(sorted(known.keys() & sizes.keys()), 3000)
    last_bytes = names(path, *(address + sizes[address] - 1 for address in chosen))
    wrong = [
        (name, known[address])
        for address, name in zip(chosen, last_bytes, strict=True)
        if name not in known[address]
    ]
    # A symbol nested in another one, or longer than another at the same address, has its own last byte.
    assert len(wrong) <= 3, wrong


def test_the_stack_of_a_zip_leak(jres: dict[int, Path]) -> None:
    for java in jres.values():
        path = java.parent.parent / "lib" / "libzip.so"
        for name in ("inflateInit2_", "Java_java_util_zip_Inflater_init"):
            table = symbols(path, ".symtab")
            if name in table:  # 11 to 17 may take inflate from the system's libz
                address, size = table[name]
                assert names(path, address, address + size - 1) == [name, name]


def test_best_alias_and_bounds(aliases: Path) -> None:
    at = symbols(aliases)
    assert at["answer"][0] == at["__answer_internal"][0]
    assert names(aliases, at["answer"][0]) == ["answer"]
    sizeless, sized, surrounding = at["sizeless"][0], at["sized"][0], at["surrounding"][0]
    assert names(aliases, sizeless, sized - 1) == ["sizeless", "sizeless"]
    end = sized + at["sized"][1]
    assert names(aliases, sized, end - 1, end, surrounding - 1) == ["sized", "sized", "", ""]
    nested, nested_size = at["nested"]
    assert names(aliases, surrounding, at["label_within"][0], nested, nested + nested_size) == [
        "surrounding",
        "surrounding",
        "nested",
        "surrounding",
    ]
    assert names(aliases, 0, -1, 2**64, 2**63) == ["", "", "", ""]


def test_libc_names_are_those_people_call() -> None:
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = Path(next(line.split()[-1] for line in maps if "libc.so" in line))
    at = {plain(name): address for name, (address, _) in symbols(path, ".dynsym").items()}
    wanted = ["malloc", "calloc", "free", "mmap", "pthread_create"]
    assert names(path, *(at[name] for name in wanted)) == wanted
    if lines.available():  # the distribution's debug symbols add many aliases
        resolved = Symbolizer().resolve(str(path), build_id(path), [at[name] for name in wanted])
        assert [chain[-1].name for chain in resolved] == wanted


@st.composite
def _functions(draw: st.DrawFn) -> list[tuple[int, int]]:
    return draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=12))


@given(functions=_functions())
@settings(max_examples=300)
def test_overlapping_functions(aliases: Path, functions: list[tuple[int, int]]) -> None:
    """Every address against the rule itself, written as a search through all functions."""
    with ElfImage.open(aliases) as image:
        index = next(n for n, section in enumerate(image.sections) if section.name == ".text")
        text = image.sections[index]
        strings = b"\0" + b"".join(b"f%d\0" % start for start, _ in functions)
        entries = np.zeros(len(functions), SYMBOL)
        entries["value"] = [text.address + start for start, _ in functions]
        entries["size"] = [size for _, size in functions]
        entries["name"] = [strings.index(b"\0f%d\0" % start) + 1 for start, _ in functions]
        entries["info"], entries["section"] = 0x12, index
        table = FunctionTable([(image, SymbolTable(entries, strings))])
    starts = sorted({start for start, _ in functions})
    extent = {start: max(size for at, size in functions if at == start) for start in starts}
    for address in range(90):
        expected = []
        for number, start in enumerate(starts):
            following = starts[number + 1] if number + 1 < len(starts) else text.size
            within = any(other < start < other + extent[other] for other in starts)
            size = extent[start] or (0 if within else min(following, text.size) - start)
            if start <= address < start + size:
                expected = [f"f{start}"]
        assert table.aliases(text.address + address) == expected


def test_libjvm_loads_quickly_and_small(jre: Callable[[int], Path]) -> None:
    path = jre(25).parent.parent / "lib/server/libjvm.so"
    address = symbols(path)["JNI_CreateJavaVM"][0]
    times = []
    for _ in range(3):
        started = time.process_time()
        assert names(path, address) == ["JNI_CreateJavaVM"]
        times.append(time.process_time() - started)
    assert min(times) < 0.3


# ---- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN2os6mallocEm8MEMFLAGS", "os::malloc(unsigned long, MEMFLAGS)"),
        ("_ZN2os6mallocEm8MEMFLAGS.part.0.cold", "os::malloc(unsigned long, MEMFLAGS)"),
        ("grow.constprop.0.isra.1", "grow"),
        ("fill.llvm.1234567", "fill"),
        ("malloc@@GLIBC_2.2.5", "malloc"),
        ("memcpy@GLIBC_2.2.5", "memcpy"),
        ("_Znwm", "operator new(unsigned long)"),
        ("_Zno_such_name", "_Zno_such_name"),
        ("plain", "plain"),
        ("file.party", "file.party"),
        (".cold", ".cold"),
        ("_ZN" + "1" * 40000, "_ZN" + "1" * 40000),
    ],
)
def test_names(symbol: str, name: str) -> None:
    assert demangle(plain(symbol)) == name


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind", "__rustc::rust_begin_unwind"),
        (
            "_ZN64_$LT$r..Pool$LT$alloc..string..String$GT$$u20$as$u20$r..Keep$GT$4keep17h01fc20bed5e465b8E",
            "<r::Pool<alloc::string::String> as r::Keep>::keep",
        ),
    ],
)
def test_rust_names(symbol: str, name: str) -> None:
    needs.module("demangle", "use Python 3.11 or newer")
    assert demangle(plain(symbol)) == name


def test_names_that_libstdcxx_does_not_read() -> None:
    """clang 18 and newer write the type of a template's constant parameter (Tn)."""
    needs.module("demangle", "use Python 3.11 or newer")
    assert demangle("_Z4makeIiTniLi0EEvv") == "void make<int, 0>()"


@given(st.text(max_size=60).map(lambda text: "_Z" + text) | st.text(max_size=60))
@settings(max_examples=200)
def test_any_text_is_a_name(symbol: str) -> None:
    assert isinstance(demangle(plain(symbol)), str)


def test_stubs_of_the_procedure_linkage_table(of_machine: Path) -> None:
    path = of_machine
    with ElfImage.open(path) as image:
        section = image.section(".plt")
        assert section
        found = names(path, *range(section.address, section.address + section.size, 4))
    assert found.count("malloc@plt") == 4  # a stub of 16 bytes
    assert set(found) - {"malloc@plt", ""} <= {"__cxa_finalize@plt", "deep::outer(unsigned long)@plt"}
