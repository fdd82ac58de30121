"""Shared libraries made from programs/images, what binutils says of them, and what a symbolizer should."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness import needs
from harness.paths import IMAGES
from offheap.probe import checkout
from offheap.proc.images.elf import ElfImage
from offheap.symbols import Symbol, Symbolizer

SOURCES = IMAGES


def shared_library(source: str, output: Path, *flags: str, machine: str | None = None) -> Path:
    """programs/images/`source` with -O2 -g and a build-id, by the compiler of the probe."""
    options = ["-O2", "-g", "-shared", "-fPIC", "-fno-sanitize=undefined", "-Wl,--build-id=sha1"]
    arguments = [str(SOURCES / source), *options, *flags, "-o", str(output)]
    checkout.build_script().compile_native(arguments, machine=machine)
    return output


def program(name: str) -> str:
    """A program of binutils or GCC, or the test is skipped."""
    return needs.program(name, "the independent answer to compare with")


def run(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def symbols(path: Path, table: str = ".symtab") -> dict[str, tuple[int, int]]:
    """Name -> (address, size) of the defined symbols."""
    with ElfImage.open(path) as image:
        read = image.symbols(table)
        assert read
        return {
            read.name(row["name"]).decode(): (int(row["value"]), int(row["size"]))
            for row in read.entries
            if row["section"]
        }


def build_id(path: Path) -> str:
    with ElfImage.open(path) as image:
        return image.build_id


def line_of(source: str, mark: str) -> int:
    """The line of harness/programs/images/`source` that ends with the comment `mark`."""
    lines = (SOURCES / source).read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"// {mark}")]
    return found


NOWHERE = (Path("/nonexistent"),)  # to look for debug files


def names(path: Path, *addresses: int, build: str | None = None, dwarf: bool | None = False) -> list[str]:
    """The outermost name at each address, "" for none."""
    symbolizer = Symbolizer(debug_directories=NOWHERE, dwarf=dwarf)
    chains = symbolizer.resolve(str(path), build_id(path) if build is None else build, addresses)
    return [chain[-1].name if chain else "" for chain in chains]


CHAIN = [
    ("void* deep::Box::grab<unsigned long>(unsigned long)", "INNERMOST", True),
    ("deep::Twice::grab(deep::Box&, unsigned long)", "MIDDLE", True),
    ("deep::outer(unsigned long)", "OUTERMOST", False),
]


def has_the_chain(chain: tuple[Symbol, ...]) -> bool:
    """Asserts that this is what inlined.cpp has at its allocation_site: CHAIN, with files and lines."""
    assert [symbol.name for symbol in chain] == [name for name, _, _ in CHAIN]
    assert [symbol.line for symbol in chain][1:] == [line_of("inlined.cpp", mark) for _, mark, _ in CHAIN][1:]
    # The label is an instruction before the call, the return address belongs to the line after it.
    assert chain[0].line - line_of("inlined.cpp", "INNERMOST") in (0, 1)
    assert [symbol.inlined for symbol in chain] == [inlined for _, _, inlined in CHAIN]
    assert {Path(symbol.file).name for symbol in chain} == {"inlined.cpp"}
    return True
