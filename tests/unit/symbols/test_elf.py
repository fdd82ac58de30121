"""ELF images: the same content as in binutils, and an ElfError for every broken file."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.native.elf_images import program, run, shared_library
from offheap.proc.images.elf import SEGMENT_EXECUTE, SEGMENT_LOAD, ElfError, ElfImage
from offheap.symbols.debug_files import minidebug
from offheap.symbols.functions import FunctionTable
from offheap.symbols.plt import plt_stubs


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_library("inlined.cpp", tmp_path_factory.mktemp("elf") / "libinlined.so")


def test_readelf_agrees(library: Path, jres: dict[int, Path]) -> None:
    readelf = program("readelf")
    for path in [library, *(java.parent.parent / "lib/server/libjvm.so" for java in jres.values())]:
        with ElfImage.open(path) as image:
            notes = run([readelf, "-nW", path])
            assert image.build_id in notes
            assert bool(image.build_id) == ("Build ID:" in notes)
            rows = [line[6:].split() for line in run([readelf, "-SW", path]).splitlines() if line[2:3] == "["]
            assert [s.name for s in image.sections[1:]] == [
                row[0] for row in rows if row[0] not in ("Name", "NULL")
            ]
            text = image.section(".text")
            assert text
            row = next(row for row in rows if row[0] == ".text")
            assert [int(column, 16) for column in row[2:5]] == [text.address, text.offset, text.size]
            loads = image.segments[image.segments["type"] == SEGMENT_LOAD]
            said = [line.split() for line in run([readelf, "-lW", path]).splitlines() if "LOAD " in line]
            for name, column in (("offset", 1), ("address", 2), ("file_size", 4), ("memory_size", 5)):
                assert [int(row[column], 16) for row in said] == loads[name].tolist()
            assert np.count_nonzero(loads["flags"] & SEGMENT_EXECUTE) == sum("E" in row[-2] for row in said)
            for table in (".symtab", ".dynsym"):
                read = image.symbols(table)
                assert read
                header = next(
                    line
                    for line in run([readelf, "-sW", path]).splitlines()
                    if line.startswith(f"Symbol table '{table}'")
                )
                assert f" {len(read.entries)} entries" in header


def test_image_of_another_machine(tmp_path: Path) -> None:
    path = shared_library("aliases.c", tmp_path / "libaliases.so", machine="aarch64")
    with ElfImage.open(path) as image:
        assert image.machine == "aarch64"
        assert len(image.build_id) == 40
        table = image.symbols(".symtab")
        assert table
        rows = [row for row in table.entries if table.name(row["name"]) == b"sized"]
        assert [int(row["size"]) for row in rows] == [16]  # four instructions of four bytes


def test_more_sections_than_16_bits_count(tmp_path: Path) -> None:
    assembler = program("as")
    source = tmp_path / "many.s"
    source.write_text(
        "".join(f'.section .s{n},"a"\n.byte 0\n' for n in range(0x10010)) + ".globl last\nlast:\n"
    )
    run([assembler, "-o", tmp_path / "many.o", source])
    with ElfImage.open(tmp_path / "many.o") as image:
        assert len(image.sections) > 0x10010
        last = image.section(f".s{0x1000F}")
        assert image.data(last) == b"\0"
        table = image.symbols(".symtab")
        assert table
        assert b"last" in {table.name(row["name"]) for row in table.entries}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an ELF file"),
        (b"#!", "not an ELF file"),
        (b"\x7fELF", "truncated"),
        (b"#!/bin/sh\n" + b" " * 100, "not an ELF file"),
        (b"\x7fELF\x01\x01" + b"\0" * 100, "not a 64-bit"),
        (b"\x7fELF\x02\x02" + b"\0" * 100, "little-endian"),
    ],
)
def test_what_is_no_image(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ElfError, match=said):
        ElfImage.open(tmp_path / "file")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ElfError, match="regular file"):  # without the check, open(2) would block
        ElfImage.open(tmp_path / "pipe")
    with pytest.raises(ElfError, match="regular file"):
        ElfImage.open(Path("/dev/zero"))
    with pytest.raises(OSError):
        ElfImage.open(tmp_path)


def test_size_that_the_file_does_not_have(library: Path) -> None:
    data = bytearray(library.read_bytes())
    (table,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    for index in range(1, count):  # a header is 64 bytes, with its size field at 32
        struct.pack_into("<Q", data, table + 64 * index + 32, 1 << 40)
    tracemalloc.start()
    try:
        with pytest.raises(ElfError, match="past the end"):
            ElfImage.from_bytes(bytes(data))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def read_everything(data: bytes) -> None:
    image = ElfImage.from_bytes(data)
    tables = [(image, table) for name in (".symtab", ".dynsym") if (table := image.symbols(name))]
    functions = FunctionTable(tables)
    for address in (0, 0x1234, 2**63, 2**64 - 1, *image.segments["address"].tolist()):
        functions.aliases(address)
    plt_stubs(image)
    minidebug(image)
    list(image.notes())
    assert image.load_address >= 0
    assert image.debug_link is None or image.debug_link.crc >= 0
    assert image.build_id == image.build_id.lower()


def readable_or_error(data: bytes) -> bool:
    started = time.process_time()
    try:
        read_everything(data)
        return True
    except ElfError:
        return False
    finally:
        assert time.process_time() - started < 5.0


def test_whole_image_reads(library: Path) -> None:
    assert readable_or_error(library.read_bytes())


@given(cut=st.integers(min_value=0, max_value=1 << 14))
@settings(max_examples=150)
def test_truncated(library: Path, cut: int) -> None:
    data = library.read_bytes()
    # The section headers come last: every cut removes some of them.
    assert readable_or_error(data[:cut]) == (cut >= len(data))


@st.composite
def _damage(draw: st.DrawFn) -> list[tuple[float, int]]:
    """(place as a fraction of a region chosen by its sign and size, new byte)"""
    places = st.one_of(st.floats(0, 1), st.floats(1, 2), st.floats(2, 3))
    return draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=24))


@given(damage=_damage())
@settings(max_examples=400)
@example(damage=[(2.0, 0)])
def test_damaged(library: Path, damage: list[tuple[float, int]]) -> None:
    data = bytearray(library.read_bytes())
    (headers,) = struct.unpack_from("<Q", data, 40)
    regions = [(0, 64 + 56 * 8), (headers, len(data)), (0, len(data))]
    for place, byte in damage:
        low, high = regions[min(int(place), 2)]
        data[min(low + int((place - min(int(place), 2)) * (high - low)), len(data) - 1)] = byte
    readable_or_error(bytes(data))


@given(data=st.binary(max_size=512))
@settings(max_examples=100)
def test_noise_behind_a_magic_number(data: bytes) -> None:
    readable_or_error(b"\x7fELF\x02\x01\x01" + b"\0" * 9 + data)
