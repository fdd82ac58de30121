"""Addresses of modules to functions, files, lines and inlined chains."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offheap.errors import UserError
from offheap.proc.images.elf import ElfError, ElfImage
from offheap.proc.images.mapped_elf import MappedModule
from offheap.symbols import lines
from offheap.symbols.debug_files import beneath, debug_file, minidebug
from offheap.symbols.functions import FunctionTable
from offheap.symbols.images import DELETED, Image, Images
from offheap.symbols.names import demangle, plain
from offheap.symbols.plt import plt_stubs

_STRIPPED = "stripped: only exported functions have names, install its debug symbols"
_IN_MEMORY = "the file is gone: only exported functions have names"
# Bytes of all symbol tables together: a recording may name thousands of modules, each the same large file.
_MOST_HELD = 384 << 20


@dataclass(frozen=True, slots=True)
class Symbol:
    """One function at an address.

    name     demangled; "" when only the line is known
    file     source file as the compiler noted it, "" if not known
    line     0 if not known
    inlined  True when the function is inlined into the next symbol of its chain
    """

    name: str
    file: str = ""
    line: int = 0
    inlined: bool = False


@dataclass
class _Module:
    """The symbols of one image.  Its files are closed: tables are in memory, lines in a mapped symcache."""

    functions: FunctionTable
    stubs: dict[range, bytes]
    lines: lines.LineTable | None
    lacking: str  # why only exported functions have names (no .symtab); "" with a .symtab

    def chain(self, address: int) -> tuple[Symbol, ...]:
        aliases = self.functions.aliases(address)
        places = self.lines.chain(address) if self.lines else []
        # This omits an inlined function whose name is in another file (dwz, see _lines).
        places = [place for place in places[:-1] if place.name] + places[-1:]
        if places:
            last = len(places) - 1
            return tuple(
                Symbol(demangle(_best(place.name, aliases)), place.file, place.line, index < last)
                for index, place in enumerate(places)
            )
        if aliases:
            return (Symbol(demangle(aliases[0])),)
        for stub, function in self.stubs.items():
            if address in stub:
                return (Symbol(demangle(plain(function.decode("utf-8", "replace"))) + "@plt"),)
        return ()


@dataclass
class Symbolizer:
    """Reads each module once and keeps their tables for as long as it lives.

    root               root directory of the target: /proc/PID/root for another mount namespace
    pid                of the target, as seen from here; None when it is gone
    debug_directories  folders of separate debug files, below `root` and here
    finders            asked, if that is not enough, for files by build-id: the image, or its debug file
    dwarf              whether to return files, lines and inlined functions; None: if `symbolic` is installed
    problems           module path -> why its symbols are missing or unreliable
    """

    root: Path = Path("/")
    pid: int | None = None
    debug_directories: Sequence[Path] = (Path("/usr/lib/debug"),)
    finders: Sequence[Callable[[str], Iterable[Path]]] = ()
    dwarf: bool | None = None
    problems: dict[str, str] = field(default_factory=dict, init=False)
    _images: Images = field(init=False, repr=False)
    _modules: dict[tuple[str, str], _Module | None] = field(default_factory=dict, init=False, repr=False)
    _held: int = field(default=0, init=False, repr=False)  # bytes of symbol tables

    def __post_init__(self) -> None:
        self._images = Images(self.root, self.pid)
        if self.dwarf and not lines.available():
            raise UserError(
                "files and lines need the Python package `symbolic`", "run `pip install symbolic`"
            )

    def meet(self, modules: Iterable[MappedModule]) -> None:
        """Opens the modules' images while they are available: their files may be deleted soon."""
        self._images.meet(modules)

    def close(self) -> None:
        """Closes images that were never used; tables in memory stay."""
        self._images.close()

    def resolve(self, path: str, build_id: str, addresses: Sequence[int]) -> list[tuple[Symbol, ...]]:
        """For each address the inlined chain, innermost first; () when unknown.

        path       the module's name in /proc/PID/maps or the dynamic linker
        build_id   of the module that was mapped, in hexadecimal; "" if it had none
        addresses  ELF virtual addresses; the caller has subtracted one from return addresses
        """
        if not path.startswith("/"):  # [vdso], linux-vdso.so.1, anonymous memory: no file
            return [()] * len(addresses)
        build_id = build_id.lower()
        key = (path, build_id)
        if key not in self._modules:
            self._modules[key] = self._load(path, build_id)
        module = self._modules[key]
        if module is None:
            return [()] * len(addresses)
        chains = [module.chain(address) if 0 <= address < 2**64 else () for address in addresses]
        if module.lacking and not all(chains):
            self.problems.setdefault(path, module.lacking)
        return chains

    def _load(self, path: str, build_id: str) -> _Module | None:
        with contextlib.ExitStack() as stack:
            try:
                return self._read(path, build_id, stack)
            except ElfError as error:
                self.problems[path] = f"the file {error}"
            except OSError as error:
                self.problems[path] = f"the file cannot be read: {error.strerror}"
            except MemoryError:
                self.problems[path] = "not enough memory for its symbols"
            return None

    def _read(self, path: str, build_id: str, stack: contextlib.ExitStack) -> _Module | None:
        file = beneath(self.root, path.removesuffix(DELETED))
        found, reason = self._open(path, file, build_id)
        image = found.image if found else None
        if image:
            stack.enter_context(image)
            if image.build_id and not build_id:
                self.problems[path] = "the recording has no build-id to check the file with"
        images = [(found.place, found.image)] if found else []
        if not image or not _complete(image, self._wants_lines()):
            link = image.debug_link if image else None
            wanted = build_id or (image.build_id if image else "")
            separate = debug_file(self.root, self.debug_directories, file, wanted, link)
            for one in [separate] if separate else self._elsewhere(wanted):
                stack.enter_context(one[1])
                images.append(one)
        if not images:
            self.problems[path] = reason
            return None
        # A debug file has no dynamic symbols; an image that a finder found has.
        image = image or next((one for _, one in images if one.has(".dynsym")), None)
        size = sum(one.symbol_bytes() for _, one in images)
        if self._held + size > _MOST_HELD:
            self.problems[path] = f"the symbols of all modules exceed {_MOST_HELD >> 20} MiB"
            return None
        self._held += size
        full = [(one, table) for _, one in images if (table := one.symbols(".symtab"))]
        mini = minidebug(image) if image and not full else None
        if mini and (table := mini.symbols(".symtab")):
            full.append((mini, table))
        exported = [(image, table)] if image and (table := image.symbols(".dynsym")) else []
        return _Module(
            functions=FunctionTable(full + exported, sparse=not full),
            stubs=plt_stubs(image) if image else {},
            lines=self._lines(path, images),
            lacking="" if full else _STRIPPED if found is None or found.whole else _IN_MEMORY,
        )

    def _open(self, path: str, file: Path, build_id: str) -> tuple[Image | None, str]:
        """The image that `meet` opened, or the one now at that path if it is the mapped one, else the reason
        why it is not."""
        if kept := self._images.take(path, build_id):
            return kept, ""
        deleted = path.endswith(DELETED)
        try:
            image = ElfImage.open(file)
        except (FileNotFoundError, NotADirectoryError):
            return None, "the file is gone"
        except OSError as error:
            return None, f"the file cannot be read: {error.strerror}"
        except ElfError as error:
            return None, f"the file {error}"
        with contextlib.ExitStack() as unless_returned:
            unless_returned.callback(image.close)
            try:
                same = image.build_id == build_id if build_id else not deleted
            except ElfError as error:
                return None, f"the file {error}"
            if same:
                unless_returned.pop_all()
                return Image(image, file, whole=True), ""
        if not build_id:
            return None, "the file was replaced, and has no build-id to tell whether it is the same"
        return None, "build-id differs: the file was replaced"

    def _elsewhere(self, build_id: str) -> list[tuple[Path, ElfImage]]:
        """The finders' files of that build-id, opened, up to the first that has all symbols."""
        found: list[tuple[Path, ElfImage]] = []
        for path in (path for finder in self.finders if build_id for path in finder(build_id)):
            try:
                image = ElfImage.open(path)
            except (OSError, ElfError):
                continue
            if not _has_build_id(image, build_id):
                image.close()
                continue
            found.append((path, image))
            if _complete(image, self._wants_lines()):
                break
        return found

    def _wants_lines(self) -> bool:
        return lines.available() if self.dwarf is None else self.dwarf

    def _lines(self, path: str, images: Sequence[tuple[Path, ElfImage]]) -> lines.LineTable | None:
        if not self._wants_lines():
            if self.dwarf is None and any(_has_lines(image) for _, image in images):
                self.problems[path] = (
                    "its files, lines and inlined functions have no names: run `pip install symbolic`"
                )
            return None
        for file, image in images:
            if _has_lines(image):
                if image.has(".gnu_debugaltlink"):
                    self.problems[path] = (
                        "some inlined functions are missing: dwz moved their names into another file"
                    )
                try:
                    return lines.LineTable.open(file, image)
                except lines.LinesError as error:
                    self.problems[path] = f"its lines are missing: {error}"
        return None


def _best(name: str, aliases: Sequence[str]) -> str:
    # DWARF has __GI___libc_malloc or foo.cold for malloc and foo.
    name = plain(name)
    return aliases[0] if aliases and name in aliases else name


def _has_build_id(image: ElfImage, build_id: str) -> bool:
    try:
        return image.build_id == build_id
    except (OSError, ElfError):
        return False


def _complete(image: ElfImage, with_lines: bool) -> bool:
    return image.has(".symtab") and (_has_lines(image) or not with_lines)


def _has_lines(image: ElfImage) -> bool:
    return image.has(".debug_info") or image.has(".zdebug_info")
