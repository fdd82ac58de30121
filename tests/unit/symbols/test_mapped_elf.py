"""Exported symbols from a library's mapped memory; the library's file is the oracle."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import needs
from harness.native.elf_images import NOWHERE, build_id, names, shared_library, symbols
from offheap.proc import maps
from offheap.proc.images.elf import ElfError, ElfImage
from offheap.proc.images.mapped_elf import MappedModule, Read, exported_symbols
from offheap.symbols import Symbol, Symbolizer
from offheap.symbols import images as opened

HERE = maps.read(os.getpid())
LIBRARIES = {
    mapping.path: mapping
    for mapping in HERE
    if ".so" in mapping.name and not mapping.offset and mapping.inode
}
FLAGS = ("-fvisibility=hidden", "-Wl,--hash-style=gnu")


@pytest.fixture(scope="module")
def extracted(images: Path) -> Path:
    return shared_library("extracted.c", images / "libextracted.so", *FLAGS, "-s")


def own_memory(address: int, size: int) -> bytes:
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), size, address)


def of_file(path: Path) -> Read:
    """Reads a library's segments as if they were mapped at 0, with nothing relocated."""
    data = path.read_bytes()
    with ElfImage.open(path) as image:
        loads = image.segments[image.segments["type"] == 1]
    memory = bytearray(int((loads["address"] + loads["memory_size"]).max()))
    for row in loads:
        content = data[row["offset"] : row["offset"] + row["file_size"]]
        memory[row["address"] : row["address"] + len(content)] = content
    return lambda address, size: bytes(memory[address : address + size])


def test_every_library_of_a_process_has_the_same_exports_in_memory_as_in_its_file() -> None:
    compared = 0
    for path, mapping in LIBRARIES.items():
        with ElfImage.open(Path(path)) as image:
            bias = mapping.start - image.load_address
            mapped = ElfImage.from_bytes(exported_symbols(own_memory, mapping.start, bias))
            expected, found = image.symbols(".dynsym"), mapped.symbols(".dynsym")
            assert expected
            assert found
            assert mapped.build_id == image.build_id
            assert mapped.load_address == image.load_address
            # Unless a hash table lists all symbols, only undefined ones come after the hashed ones.
            assert not expected.entries["section"][len(found.entries) :].any()
            for column in ("name", "value", "size", "info"):
                assert np.array_equal(
                    expected.entries[column][: len(found.entries)], found.entries[column]
                ), path
            assert expected.strings == found.strings
            compared += len(found.entries)
    assert compared > 3000  # libc alone has so many


def test_code_between_exported_functions_is_nobodys(extracted: Path) -> None:
    """GIVEN only exports WHEN an address is in a function that is not exported THEN it has no name."""
    at = symbols(extracted, ".dynsym")
    spans = {name: range(start, start + size) for name, (start, size) in at.items()}
    mapped = extracted.with_suffix(".mapped")
    mapped.write_bytes(exported_symbols(of_file(extracted), 0, 0))
    everywhere = range(
        min(span.start for span in spans.values()) - 16, 16 + max(s.stop for s in spans.values())
    )
    found = names(mapped, *everywhere, build=build_id(extracted))
    assert found == names(extracted, *everywhere)
    for address, name in zip(everywhere, found, strict=True):
        holders = [one for one, span in spans.items() if address in span]
        assert name == (holders[0] if holders else ""), hex(address)
    inner = range(spans["Java_Extracted_keep"].stop, spans["after"].start)
    assert len(inner) > 16  # the size of hold()
    assert set(found[inner.start - everywhere.start : inner.stop - everywhere.start]) == {""}


def test_an_exported_function_of_unknown_size_does_not_reach_to_the_next(
    aliases: Path, tmp_path: Path
) -> None:
    at = symbols(aliases)
    stripped = tmp_path / "libstripped.so"
    subprocess.run([needs.program("strip"), "-o", stripped, aliases], check=True, timeout=60)
    assert at["sizeless"][1] == 0
    # .symtab has all functions, so that the function reaches to the next.
    assert names(aliases, at["sizeless"][0] + 1) == ["sizeless"]
    assert names(stripped, at["sizeless"][0] + 1) == [""]
    assert names(stripped, at["sized"][0]) == ["sized"]


@given(
    damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=12),
    words=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2**64 - 1)), max_size=4),
    end=st.floats(0, 1),
)
@settings(max_examples=300)
def test_hostile_memory_never_raises_what_is_not_expected(
    extracted: Path, damage: list[tuple[float, int]], words: list[tuple[int, int]], end: float
) -> None:
    read = of_file(extracted)
    memory = bytearray(read(0, 1 << 20))
    for place, byte in damage:
        memory[int(place * len(memory))] = byte
    with ElfImage.open(extracted) as image:
        dynamic = image.segments[image.segments["type"] == 2][0]
    for number, word in words:
        struct.pack_into("<Q", memory, int(dynamic["address"]) + 8 * number, word)
    del memory[int(end * len(memory)) + 1 :]
    started = time.process_time()
    try:
        data = exported_symbols(lambda at, size: bytes(memory[at : at + size]), 0, 0)
        with ElfImage.from_bytes(data) as image:
            image.symbols(".dynsym")
    except ElfError:
        pass
    assert time.process_time() - started < 2


def test_a_hash_chain_without_an_end_is_an_error(extracted: Path) -> None:
    """All readable memory has even words only, and an odd word ends a chain."""
    read = of_file(extracted)
    with ElfImage.open(extracted) as image:
        section = image.section(".gnu.hash")
    assert section
    asked = 0

    def endless(address: int, size: int) -> bytes:
        nonlocal asked
        asked += size
        chain = size == 4096
        if not chain and not section.address + 16 <= address < section.address + section.size:
            return read(address, size)
        return struct.pack("<I", 1000) * (size // 4)

    with pytest.raises(ElfError):
        exported_symbols(endless, 0, 0)
    assert asked < 64 << 20


def test_an_image_is_opened_when_it_is_met(extracted: Path, tmp_path: Path) -> None:
    """GIVEN a file that is deleted once its module is known WHEN a frame is named THEN it has a name."""
    path = tmp_path / "libgone.so"
    path.write_bytes(extracted.read_bytes())
    address = symbols(extracted, ".dynsym")["after"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    symbolizer.meet([MappedModule(str(path), build_id(extracted), 0, 0)])
    path.unlink()
    assert symbolizer.resolve(str(path), build_id(extracted), [address]) == [(Symbol("after"),)]
    late = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    late.meet([MappedModule(str(path), build_id(extracted), 0, 0)])
    assert late.resolve(str(path), build_id(extracted), [address]) == [()]
    assert late.problems == {str(path): "the file is gone"}


def test_only_so_many_files_are_kept_open(
    extracted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "_MOST_OPEN", 3)
    address = symbols(extracted, ".dynsym")["after"][0]
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=False)
    paths = [tmp_path / f"lib{number}.so" for number in range(8)]
    before = len(os.listdir("/proc/self/fd"))
    for path in paths:
        path.write_bytes(extracted.read_bytes())
        symbolizer.meet([MappedModule(str(path), build_id(extracted), 0, 0)])
    assert len(os.listdir("/proc/self/fd")) == before + 3
    paths[0].unlink()
    paths[7].unlink()
    found = [bool(symbolizer.resolve(str(path), build_id(extracted), [address])[0]) for path in paths]
    assert found == [False, *[True] * 7]  # the files of the others still exist
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_mappings_are_read_once_for_all_new_modules(
    extracted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with a thousand deleted libraries has ten thousand mappings: 100 s of CPU, one by one."""
    read: list[int] = []

    def counted(pid: int) -> list[maps.Mapping]:
        read.append(pid)
        return found(pid)

    found = maps.read
    monkeypatch.setattr(maps, "read", counted)
    gone = [MappedModule(str(tmp_path / f"lib{number}.so"), build_id(extracted), 0, 0) for number in range(9)]
    symbolizer = Symbolizer(pid=os.getpid(), debug_directories=NOWHERE, dwarf=False)
    symbolizer.meet(gone)
    assert read == [os.getpid()]
    symbolizer.meet(gone)
    assert read == [os.getpid()]


@needs.tracing
@pytest.mark.parametrize("stripped", [True, False])
def test_a_deleted_library_of_a_process(
    stripped: bool, extracted: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole file if the kernel gives access to it, else the content of the memory."""
    library = extracted if stripped else shared_library("extracted.c", images / "libwhole.so", *FLAGS)
    path = tmp_path / "libdeleted.so"
    path.write_bytes(library.read_bytes())
    at = symbols(library, ".dynsym")
    loaded = ctypes.CDLL(str(path))
    path.unlink()
    exported = ctypes.cast(loaded.after, ctypes.c_void_p).value
    assert exported
    bias = exported - at["after"][0]
    start = next(mapping.start for mapping in maps.read(os.getpid()) if mapping.name == path.name)
    hidden = (sum(at["Java_Extracted_keep"]) + at["after"][0]) // 2  # within hold()
    for root in (True, False):
        if not root:
            monkeypatch.setattr(opened, "_whole", lambda *_, **__: None)
        symbolizer = Symbolizer(pid=os.getpid(), debug_directories=NOWHERE, dwarf=False)
        symbolizer.meet([MappedModule(str(path), build_id(library), start, bias)])
        chains = symbolizer.resolve(str(path), build_id(library), [at["after"][0], hidden])
        assert chains[0] == (Symbol("after"),)
        whole = root and os.geteuid() == 0
        assert chains[1] == ((Symbol("hold"),) if whole and not stripped else ())
        assert set(symbolizer.problems.values()) == (
            set()
            if whole and not stripped
            else {"stripped: only exported functions have names, install its debug symbols"}
            if whole
            else {"the file is gone: only exported functions have names"}
        )
