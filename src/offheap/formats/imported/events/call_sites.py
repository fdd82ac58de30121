"""The callers in mtrace's logs as frames, named by the ELF files where these are the ones that were mapped.

mtrace calls dladdr(3), which knows exported functions only: for a call in a static function the log has the
exported function before it, or no name.  From glibc 2.34 on the log has the address relative to the object;
by this address the object's file names function, line and inlined functions.  Other addresses are absolute:
those of older glibc, and of code that the dynamic linker did not map.  The process's mappings make them
relative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from offheap.errors import UserError
from offheap.formats.imported.samples.address_names import code_modules
from offheap.formats.imported.stack_tables import MOST_DISTINCT_FRAMES, StackTable
from offheap.proc.maps import Mapping
from offheap.recording.model import Frame, Kind, Module
from offheap.symbols import Symbol, Symbolizer
from offheap.symbols.names import demangle, plain

_CALLER = re.compile(rb"@ (?:(?P<object>.*):)?(?:\((?P<place>[^()]*)\))?\[(?P<address>0x[0-9a-fA-F]{1,16})\]")
_PLACE = re.compile(r"(?P<name>.*)(?P<sign>[+-])(?:0x)?(?P<offset>[0-9a-fA-F]{1,16})")
# An address below this is relative: no library has 4 GiB, and none is mapped below it.
_RELATIVE = 1 << 32

UNCHECKED = (
    "Functions of {names} are named by the files that are at their paths now; the log has nothing that tells "
    "whether these are the same builds"
)
RELATIVE = (
    "Functions of {names} have no names: no file with symbols is at that path; import the log in the folder "
    "in which the program was started"
)


@dataclass(frozen=True)
class _Site:
    """A call: `address` as logged, `function` (mangled) and `offset` into it where dladdr named one."""

    path: str = ""
    address: int = 0
    function: str = ""
    offset: int = 0

    @property
    def module(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def relative(self) -> bool:
        return 0 < self.address < _RELATIVE

    @property
    def file(self) -> str:
        """The path of the object's file; "" if it is not known.

        dladdr knows the program itself by argv[0].  A name without a slash was found on PATH.
        """
        return str(Path(self.path).absolute()) if "/" in self.path else ""


@dataclass
class CallSites:
    """Numbers of callers by the text of the log; their stacks when all are known."""

    path: Path
    mappings: Sequence[Mapping] = ()
    numbers: dict[bytes, int] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)
    elsewhere: set[str] = field(default_factory=set)  # relative paths without symbols here

    def number(self, caller: bytes) -> int:
        """The number of a caller, from 0 on."""
        number = self.numbers.setdefault(caller, len(self.numbers))
        if number >= MOST_DISTINCT_FRAMES:
            raise UserError(
                f"{self.path} has more than {MOST_DISTINCT_FRAMES:,} callers", "import a part of it"
            )
        return number

    def stacks(self, stacks: StackTable) -> list[int]:
        """The stack of each caller, by number; the names of files are read here."""
        modules = code_modules(self.mappings)
        sites = [_relative(_parsed(caller), modules) for caller in self.numbers]
        chains = self._named(sites)
        return [stacks.of_frames(_frames(site, chains.get(number, ()))) for number, site in enumerate(sites)]

    def lacks(self) -> list[str]:
        said = ((UNCHECKED, self.unchecked), (RELATIVE, self.elsewhere))
        return [text.format(names=", ".join(sorted(names))) for text, names in said if names]

    def _named(self, sites: Sequence[_Site]) -> dict[int, tuple[Symbol, ...]]:
        """By number of the caller: the chain at it, from files that agree with every name in the log."""
        of_path: dict[str, list[int]] = {}
        for number, site in enumerate(sites):
            if site.file and site.relative:
                of_path.setdefault(site.file, []).append(number)
        found: dict[int, tuple[Symbol, ...]] = {}
        symbolizer = Symbolizer()
        for path, numbers in of_path.items():
            logged = [sites[number] for number in numbers if sites[number].function]
            starts = symbolizer.resolve(path, "", [site.address - site.offset for site in logged])
            agreed = [
                any(demangle(plain(site.function)) == symbol.name for symbol in chain)
                for site, chain in zip(logged, starts, strict=True)
            ]
            if not all(agreed):
                continue
            # A return address: the call is before it.
            chains = symbolizer.resolve(path, "", [sites[number].address - 1 for number in numbers])
            if not any(chains):
                self.elsewhere.update({sites[numbers[0]].path} - {path})
            elif not logged:
                self.unchecked.append(sites[numbers[0]].module)
            found.update((number, chain) for number, chain in zip(numbers, chains, strict=True) if chain)
        return found


def _parsed(caller: bytes) -> _Site:
    match = _CALLER.fullmatch(caller)
    if match is None:
        return _Site()
    path = (match["object"] or b"").decode("utf-8", "replace")
    address = int(match["address"], 16)
    place = _PLACE.fullmatch((match["place"] or b"").decode("utf-8", "replace"))
    if not place or not place["name"]:
        return _Site(path, address)
    offset = int(place["offset"], 16)
    return _Site(path, address, place["name"], -offset if place["sign"] == "-" else offset)


def _relative(site: _Site, modules: Sequence[Module]) -> _Site:
    """The site with its address in the file that was mapped there, if there is one."""
    for module in () if site.relative else modules:
        if module.start <= site.address < module.end:
            return replace(site, path=module.path, address=site.address - module.bias)
    return site


def _frames(site: _Site, chain: Sequence[Symbol]) -> Iterator[Frame]:
    """The function that called malloc, and a gap in place of its callers, which are not in the log."""
    if not site.address:
        yield Frame("caller not in mtrace's log", "unknown")
        return
    module, call = site.module, f"{site.address:#x}"
    if site.relative and module:
        call = f"{module}+{call}"
    kind: Kind = "jvm" if module == "libjvm.so" else "native"
    name = call
    if site.function:
        name = demangle(plain(site.function))
        call = f"{site.function}{'-' if site.offset < 0 else '+'}{abs(site.offset):#x}"
    named = [symbol for symbol in chain if symbol.name]
    for symbol in named:
        yield Frame(symbol.name, kind, module, symbol.file, symbol.line, symbol.inlined)
    if not named:
        file, line = (chain[0].file, chain[0].line) if chain else ("", 0)
        yield Frame(name, kind, module, file, line)
    yield Frame(f"callers not in mtrace's log, call at {call}", "unknown", module)
