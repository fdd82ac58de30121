"""The file with the symbols: separate debug information, and files that differ from the mapped ones."""

from __future__ import annotations

import lzma
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.native.elf_images import (
    NOWHERE,
    SOURCES,
    build_id,
    has_the_chain,
    names,
    program,
    run,
    shared_library,
    symbols,
)
from offheap.proc.images.elf import ElfImage
from offheap.symbols import Symbol, Symbolizer, lines

pytestmark = pytest.mark.usefixtures("symbol_cache")


@pytest.fixture(scope="module")
def without_build_id(images: Path) -> Path:
    return shared_library("inlined.cpp", images / "libwithout.so", "-Wl,--build-id=none")


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
    # The library itself may be missing or replaced.
    for path in (tmp_path / "gone.so", Path(f"{stripped} (deleted)"), Path("/bin/sh")):
        check(symbolizer, path, inlined, build)
    # A debug file in the wrong place is rejected.
    shutil.copy(debug, debug.with_name("0" * 38 + ".debug"))
    assert symbolizer.resolve("/gone.so", build[:2] + "0" * 38, [0x1000]) == [()]
    assert symbolizer.problems == {"/gone.so": "the file is gone"}


def test_mini_debug_information(aliases: Path, tmp_path: Path) -> None:
    """Like Fedora's packages: an xz-compressed image with a .symtab of local functions."""
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


# ---- identity of the file --------------------------------------------------------------------------


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
    """A package manager replaces a file by an equal one; the kernel still calls the old one deleted."""
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
    """Absolute links belong to the target, and must not lead out of its root."""
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
    assert symbolizer.resolve("/bin/sh", "", [address]) == [()]  # this root has no /bin/sh
    assert symbolizer.resolve("/opt/loop/x.so", "", [address]) == [()]
    assert set(symbolizer.problems) == {"/bin/sh", "/opt/loop/x.so"}


@given(damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=12))
@settings(max_examples=100)
def test_damaged_file_never_raises(inlined: Path, images: Path, damage: list[tuple[float, int]]) -> None:
    data = bytearray(inlined.read_bytes())
    for place, byte in damage:
        data[int(place * len(data))] = byte
    path = images / "libdamaged.so"
    path.write_bytes(data)
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    assert len(symbolizer.resolve(str(path), "", range(0, 0x3000, 64))) == 0x3000 // 64
