"""Names for addresses of a process that is gone: by its maps, its libraries' files and its perf map."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from pathlib import Path

from offheap.proc import maps
from offheap.proc.images.elf import ElfError, ElfImage
from offheap.recording.model import Chain, Frame, Kind, Module
from offheap.symbols import Symbolizer
from offheap.symbols.generated.generated_code import GeneratedCode


class AddressNames:
    """problems  module path -> why its functions have no names"""

    def __init__(self, mapped: Iterable[str], perf_map: Path | None) -> None:
        self._symbolizer = Symbolizer()
        self.modules = code_modules(maps.parse(mapped))
        self._starts = [module.start for module in self.modules]
        self._generated = GeneratedCode(perf_map) if perf_map else None

    @property
    def problems(self) -> dict[str, str]:
        return self._symbolizer.problems

    def chains(self, addresses: Sequence[int]) -> dict[int, Chain]:
        """For each return address the functions there, innermost first."""
        found: dict[int, Chain] = {}
        by_module: dict[int, list[int]] = {}
        for address in dict.fromkeys(addresses):
            # A return address may lie behind the last instruction of its function.
            number = self._module(address - 1)
            if number is not None:
                by_module.setdefault(number, []).append(address)
            else:
                found[address] = (self._method(address - 1) or Frame(f"0x{address:x}", "unknown"),)
        for number, its in by_module.items():
            module = self.modules[number]
            chains = self._symbolizer.resolve(
                module.path, module.build_id, [one - 1 - module.bias for one in its]
            )
            name = module.path.rpartition("/")[2]
            kind: Kind = "jvm" if name == "libjvm.so" else "native"
            for address, chain in zip(its, chains, strict=True):
                found[address] = tuple(
                    Frame(
                        symbol.name or _place(name, address, module),
                        kind,
                        name,
                        symbol.file,
                        symbol.line,
                        symbol.inlined,
                    )
                    for symbol in chain
                ) or (Frame(_place(name, address, module), kind, name),)
        return found

    def _module(self, address: int) -> int | None:
        number = bisect.bisect_right(self._starts, address) - 1
        return number if number >= 0 and address < self.modules[number].end else None

    def _method(self, address: int) -> Frame | None:
        code = self._generated.at(address) if self._generated else None
        if code is None:
            return None
        return Frame(code.name, "java" if code.java else "jvm")


def _place(name: str, address: int, module: Module) -> str:
    return f"{name}+0x{address - 1 - module.bias:x}"


def code_modules(mapped: Sequence[maps.Mapping]) -> list[Module]:
    """A module for each file that is mapped with code, from its first mapping to its last."""
    found: dict[str, Module] = {}
    code = {one.path for one in mapped if "x" in one.permissions and one.path.startswith("/")}
    for one in mapped:
        if one.path not in code:
            continue
        known = found.get(one.path)
        if known:
            found[one.path] = Module(
                known.path, known.build_id, known.start, max(known.end, one.end), known.bias
            )
        else:
            build_id, bias = _identity(one)
            found[one.path] = Module(one.path, build_id, one.start, one.end, bias)
    return sorted(found.values(), key=lambda module: module.start)


def _identity(first: maps.Mapping) -> tuple[str, int]:
    """The build-id of the file as it is now (not surely the mapped one's), and mapped minus ELF address."""
    try:
        with ElfImage.open(Path(first.path)) as image:
            # For a fixed-address image the two are the same.
            return image.build_id, first.start - first.offset - (image.load_address & ~0xFFF)
    except (OSError, ElfError):
        return "", first.start - first.offset
