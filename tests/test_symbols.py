"""Addresses to functions, files, lines and inlined chains, in real libraries; binutils is the oracle."""

from __future__ import annotations

import lzma
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf_images import SOURCES, build_id, line_of, program, run, shared_library, symbols
from offheap.errors import UserError
from offheap.proc.elf import SECTION_EXECUTE, SYMBOL, ElfImage, SymbolTable
from offheap.symbols import Symbol, Symbolizer, convert, lines
from offheap.symbols.functions import FunctionTable
from offheap.symbols.names import demangle, plain

needs_symbolic = pytest.mark.skipif(not lines.available(), reason="the `dwarf` extra is not installed")
NOWHERE = (Path("/nonexistent"),)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def inlined(images: Path) -> Path:
    return shared_library("inlined.cpp", images / "libinlined.so")


@pytest.fixture(scope="module")
def aliases(images: Path) -> Path:
    return shared_library("aliases.c", images / "libaliases.so")


@pytest.fixture(scope="module")
def without_build_id(images: Path) -> Path:
    return shared_library("inlined.cpp", images / "libwithout.so", "-Wl,--build-id=none")


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def of_machine(images: Path, request: pytest.FixtureRequest) -> Path:
    machine: str = request.param
    return shared_library("inlined.cpp", images / f"lib{machine}.so", machine=machine)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Libraries are built by module fixtures, which run before this one: zig has its cache there, too.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "offheap" / "symcache"


def names(path: Path, *addresses: int, build: str | None = None, dwarf: bool | None = False) -> list[str]:
    """The outermost name at each address, "" for none."""
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=dwarf)
    chains = symbolizer.resolve(str(path), build_id(path) if build is None else build, addresses)
    return [chain[-1].name if chain else "" for chain in chains]


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
    if lines.available():  # with the distribution's debug symbols there are many more aliases
        resolved = Symbolizer().resolve(str(path), build_id(path), [at[name] for name in wanted])
        assert [chain[-1].name for chain in resolved] == wanted


@st.composite
def _functions(draw: st.DrawFn) -> list[tuple[int, int]]:
    return draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=12))


@given(functions=_functions())
@settings(max_examples=300, deadline=None)
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
    pytest.importorskip("demangle", reason="the package that knows Rust names needs Python 3.11")
    assert demangle(plain(symbol)) == name


def test_names_that_libstdcxx_does_not_read() -> None:
    """clang 18 and newer write the type of a template's constant parameter (Tn)."""
    pytest.importorskip("demangle", reason="the package that knows these names needs Python 3.11")
    assert demangle("_Z4makeIiTniLi0EEvv") == "void make<int, 0>()"


@given(st.text(max_size=60).map(lambda text: "_Z" + text) | st.text(max_size=60))
@settings(max_examples=200, deadline=None)
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


# ---- lines -----------------------------------------------------------------------------------------

CHAIN = [
    ("void* deep::Box::grab<unsigned long>(unsigned long)", "INNERMOST", True),
    ("deep::Twice::grab(deep::Box&, unsigned long)", "MIDDLE", True),
    ("deep::outer(unsigned long)", "OUTERMOST", False),
]


def has_the_chain(chain: tuple[Symbol, ...]) -> bool:
    assert [symbol.name for symbol in chain] == [name for name, _, _ in CHAIN]
    assert [symbol.line for symbol in chain][1:] == [line_of("inlined.cpp", mark) for _, mark, _ in CHAIN][1:]
    # The label is an instruction before the call, the return address belongs to the line after it.
    assert chain[0].line - line_of("inlined.cpp", "INNERMOST") in (0, 1)
    assert [symbol.inlined for symbol in chain] == [inlined for _, _, inlined in CHAIN]
    assert {Path(symbol.file).name for symbol in chain} == {"inlined.cpp"}
    return True


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
    with pytest.raises(UserError, match=r"offheap\[dwarf\]"):
        Symbolizer(dwarf=True)
    Symbolizer()


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
        # addr2line gives a function without parameters where DWARF has no linkage name for it.
        assert [symbol.name.partition("(")[0].split()[-1] for symbol in chain] == [
            name.partition("(")[0].split()[-1] for name in functions
        ]
        assert [f"{symbol.file}:{symbol.line or '?'}" for symbol in chain] == spots


@needs_symbolic
def test_slow_conversion_is_kept_and_broken_one_made_again(
    inlined: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve() -> tuple[Symbol, ...]:
        address = symbols(inlined)["allocation_site"][0]
        return Symbolizer(debug_directories=NOWHERE).resolve(str(inlined), build_id(inlined), [address])[0]

    monkeypatch.setattr(lines, "_WORTH_KEEPING", 3600.0)
    assert has_the_chain(resolve())
    assert list(cache.iterdir()) == []
    monkeypatch.setattr(lines, "_WORTH_KEEPING", 0.0)
    assert has_the_chain(resolve())
    (kept,) = cache.iterdir()
    assert kept.name == f"{build_id(inlined)}.symcache"
    kept.write_bytes(kept.read_bytes()[:100])
    assert has_the_chain(resolve())
    monkeypatch.setattr(lines, "_convert", lambda *_: pytest.fail("it was kept"))
    assert has_the_chain(resolve())


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


# ---- separate debug files --------------------------------------------------------------------------


def split(library: Path, folder: Path, debug: Path, *, linked: bool) -> Path:
    """A stripped copy of the library in `folder`, its debug information in `debug`."""
    objcopy = program("objcopy")
    debug.parent.mkdir(parents=True, exist_ok=True)
    run([objcopy, "--only-keep-debug", library, debug])
    stripped = folder / "libstripped.so"
    link = [f"--add-gnu-debuglink={debug}"] if linked else []
    run([objcopy, "--strip-all", *link, library, stripped])
    return stripped


def check(symbolizer: Symbolizer, path: Path, library: Path, build: str) -> None:
    address = symbols(library)["allocation_site"][0]
    (chain,) = symbolizer.resolve(str(path), build, [address])
    if lines.available():
        assert has_the_chain(chain)
    else:
        assert chain == (Symbol("deep::outer(unsigned long)"),)
    assert not symbolizer.problems


def test_debug_link_beside_the_file(inlined: Path, tmp_path: Path) -> None:
    for place in (tmp_path / "a.debug", tmp_path / ".debug" / "b.debug"):
        stripped = split(inlined, tmp_path, place, linked=True)
        check(Symbolizer(debug_directories=NOWHERE), stripped, inlined, build_id(inlined))


def test_debug_link_in_a_debug_directory(inlined: Path, tmp_path: Path) -> None:
    inner = str(tmp_path)[1:]
    stripped = split(inlined, tmp_path, tmp_path / "debug" / inner / "c.debug", linked=True)
    symbolizer = Symbolizer(debug_directories=[tmp_path / "nothing", tmp_path / "debug"])
    check(symbolizer, stripped, inlined, build_id(inlined))


def test_debug_link_is_checked(without_build_id: Path, tmp_path: Path) -> None:
    library = without_build_id
    assert build_id(library) == ""
    debug = tmp_path / "d.debug"
    stripped = split(library, tmp_path, debug, linked=True)
    check(Symbolizer(debug_directories=NOWHERE), stripped, library, "")
    with debug.open("ab") as file:
        file.write(b"\0")
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    inner = symbols(library, ".dynsym")["plain_c_entry"][0]
    hidden = inner - inner % 4096
    assert symbolizer.resolve(str(stripped), "", [hidden]) == [()]
    assert "stripped" in symbolizer.problems[str(stripped)]


def test_build_id_folder(inlined: Path, tmp_path: Path) -> None:
    build = build_id(inlined)
    debug = tmp_path / "debug" / ".build-id" / build[:2] / f"{build[2:]}.debug"
    stripped = split(inlined, tmp_path, debug, linked=False)
    symbolizer = Symbolizer(debug_directories=[tmp_path / "debug"])
    check(symbolizer, stripped, inlined, build)
    # The library itself may be gone, or another one by now.
    for path in (tmp_path / "gone.so", Path(f"{stripped} (deleted)"), Path("/bin/sh")):
        check(symbolizer, path, inlined, build)
    # A debug file in the wrong place is not believed.
    shutil.copy(debug, debug.with_name("0" * 38 + ".debug"))
    assert symbolizer.resolve("/gone.so", build[:2] + "0" * 38, [0x1000]) == [()]
    assert symbolizer.problems == {"/gone.so": "the file is gone"}


def test_mini_debug_information(aliases: Path, tmp_path: Path) -> None:
    """As Fedora's packages have it: an xz-compressed image with a .symtab of local functions."""
    objcopy = program("objcopy")
    mini, packed, path = tmp_path / "mini", tmp_path / "mini.xz", tmp_path / "libmini.so"
    run([objcopy, "--strip-all", "--keep-symbol=only_local", aliases, mini])
    packed.write_bytes(lzma.compress(mini.read_bytes()))
    run([objcopy, "--strip-all", f"--add-section=.gnu_debugdata={packed}", aliases, path])
    with ElfImage.open(path) as image:
        assert not image.has(".symtab")
    at = symbols(aliases)
    both = [at["only_local"][0], at["sized"][0]]
    assert names(path, *both) == ["only_local", "sized"]
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(path.read_bytes().replace(packed.read_bytes(), b"\xfd" * packed.stat().st_size))
    assert names(broken, *both) == ["", "sized"]


def test_debug_information_shared_by_dwz(tmp_path: Path) -> None:
    dwz, compiler = program("dwz"), program("g++")
    source = SOURCES / "inlined.cpp"
    paths = [tmp_path / f"lib{n}.so" for n in range(2)]
    for n, path in enumerate(paths):
        run([compiler, "-O2", f"-DN={n}", "-g", "-shared", "-fPIC", "-Wl,--build-id", source, "-o", path])
    run([dwz, "-m", tmp_path / "common", *paths])
    symbolizer = Symbolizer(debug_directories=NOWHERE)
    at = symbols(paths[0])["allocation_site"][0]
    (chain,) = symbolizer.resolve(str(paths[0]), build_id(paths[0]), [at])
    assert chain[-1].name == "deep::outer(unsigned long)"
    assert all(symbol.name for symbol in chain)


# ---- which file it is ------------------------------------------------------------------------------


def test_file_that_is_not_the_one_that_was_mapped(inlined: Path, tmp_path: Path) -> None:
    address = symbols(inlined)["allocation_site"][0]
    os.mkfifo(tmp_path / "pipe.so")
    (tmp_path / "text.so").write_text("not a library")
    (tmp_path / "short.so").write_bytes(inlined.read_bytes()[:-100])
    (tmp_path / "link.so").symlink_to("link.so")
    cases = {
        (str(inlined), "00" * 20): "build-id differs: the file was replaced",
        (f"{inlined} (deleted)", ""): "the file was replaced, and has no build-id to tell",
        (str(tmp_path / "none.so"), "00" * 20): "the file is gone",
        ("/memfd:code (deleted)", ""): "the file is gone",
        (str(inlined / "below.so"), ""): "the file is gone",
        (str(tmp_path), ""): "the file cannot be read",
        (str(tmp_path / "link.so"), ""): "the file cannot be read",
        (str(tmp_path / "pipe.so"), ""): "the file is not a regular file",
        (str(tmp_path / "text.so"), ""): "the file is not an ELF file",
        (str(tmp_path / "short.so"), ""): "the file is truncated",
    }
    for (path, build), problem in cases.items():
        symbolizer = Symbolizer(debug_directories=NOWHERE)
        assert symbolizer.resolve(path, build, [address, address]) == [(), ()]
        assert list(symbolizer.problems) == [path]
        assert problem in symbolizer.problems[path]


def test_deleted_file_that_is_back(inlined: Path) -> None:
    """A package manager replaces a file by the same one; the kernel still calls the old one deleted."""
    address = symbols(inlined)["allocation_site"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    chains = symbolizer.resolve(f"{inlined} (deleted)", build_id(inlined), [address])
    assert chains == [(Symbol("deep::outer(unsigned long)"),)]
    assert not symbolizer.problems


def test_recording_without_build_id_of_a_file_that_has_one(inlined: Path) -> None:
    address = symbols(inlined)["allocation_site"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    assert symbolizer.resolve(str(inlined), "", [address])[0]
    assert "no build-id to check" in symbolizer.problems[str(inlined)]


@pytest.mark.parametrize("path", ["[vdso]", "linux-vdso.so.1", "", "[heap]"])
def test_memory_without_a_file(path: str) -> None:
    symbolizer = Symbolizer()
    assert symbolizer.resolve(path, "", [0x1000]) == [()]
    assert not symbolizer.problems


def test_root_of_another_mount_namespace(inlined: Path, tmp_path: Path) -> None:
    """Absolute links are the target's, and must not lead out of its root."""
    root = tmp_path / "root"
    (root / "opt/real").mkdir(parents=True)
    shutil.copy(inlined, root / "opt/real/libinlined.so")
    (root / "lib").symlink_to("/opt/./real")
    (root / "up").symlink_to("../../../../opt/real/../real")
    (root / "opt/loop").symlink_to("/opt/loop")
    address = symbols(inlined)["allocation_site"][0]
    for path in ("/lib/libinlined.so", "/up/libinlined.so", "/opt/real/libinlined.so"):
        symbolizer = Symbolizer(root=root, debug_directories=NOWHERE, dwarf=False)
        (chain,) = symbolizer.resolve(path, build_id(inlined), [address])
        assert chain == (Symbol("deep::outer(unsigned long)"),)
    symbolizer = Symbolizer(root=root, debug_directories=NOWHERE)
    assert symbolizer.resolve("/bin/sh", "", [address]) == [()]  # ours, not the target's
    assert symbolizer.resolve("/opt/loop/x.so", "", [address]) == [()]
    assert set(symbolizer.problems) == {"/bin/sh", "/opt/loop/x.so"}


@given(damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=12))
@settings(max_examples=100, deadline=None)
def test_damaged_file_never_raises(inlined: Path, images: Path, damage: list[tuple[float, int]]) -> None:
    data = bytearray(inlined.read_bytes())
    for place, byte in damage:
        data[int(place * len(data))] = byte
    path = images / "libdamaged.so"
    path.write_bytes(data)
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    assert len(symbolizer.resolve(str(path), "", range(0, 0x3000, 64))) == 0x3000 // 64
