"""Hashes the names in a recording, so that it can be passed on; drops what no analysis needs.

What stays readable: names of the JDK and HotSpot, of the run-time libraries of C and C++, and of packages
that the caller keeps; sizes, times, counts, line numbers, flags of the JVM that are numbers or switches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from offheap.analysis.stacks.packages import is_generated, is_jdk
from offheap.probe.contract import HOOKS
from offheap.recording.model import Chain, Frame, Info
from offheap.recording.storage.layout import APPENDED, REPLACED
from offheap.rewriting.content import Columns, Content
from offheap.rewriting.hashing import Hashes
from offheap.rewriting.public_names import (
    ALLOCATORS,
    PRIMITIVES,
    UNKNOWN_CLASS,
    PublicModules,
    is_gap,
    is_vm_thread,
    public_flags,
)

# Names that offheap itself chooses, such as owners and gauges (docs/recording-format.md).
_GAUGE = re.compile(r"[a-z][a-z-]*")
_OWNER = re.compile(r"[a-z][a-z-]*")
_THREADS, _MAPPED, _ALLOCATOR = "threads: ", "mapped: ", "allocator: "
_LAUNCHED = (".jar", ".war", ".java")  # suffixes of what `java` starts, if that is no class
# A word that names a file, in a sentence: a path, a library, an archive.
_FILE_WORD = (
    r"(?<![^\s(\"'])\.{0,2}/[^\s,;:()\"']+|[^\s,;:()\"']*/[^\s,;:()\"']*\.\w[^\s,;:()\"']*"
    r"|[^\s,;:()/]+\.(?:so(?:\.\d+)*|jar|war)\b"
)
_PROXY = "$Proxy"


@dataclass
class HashedNames:
    """Numbers of distinct names; `readable` stay as they are."""

    hashed: int = 0
    readable: int = 0


def anonymize(content: Content, hashes: Hashes, keep: Sequence[str] = ()) -> HashedNames:
    """Changes all of `content`.  `keep`: Java packages whose names stay readable."""
    names = _Names(hashes, PublicModules(content.modules), tuple(keep))
    outcome = HashedNames()
    seen: dict[Frame, Frame] = {}
    for number, chain in content.chains.items():
        changed: Chain = tuple(
            seen.get(frame) or seen.setdefault(frame, names.frame(frame)) for frame in chain
        )
        content.chains[number] = changed
        if changed != chain:
            # Anyone who has the library could find the function by its address.
            content.raws[number] = 0
    functions = {(before.name, after.name) for before, after in seen.items()}
    outcome.hashed = sum(before != after for before, after in functions)
    outcome.readable = len(functions) - outcome.hashed
    content.tables = {table: names.table(table, columns) for table, columns in content.tables.items()}
    content.info = names.info(content.info)
    return outcome


class _Names:
    def __init__(self, hashes: Hashes, public: PublicModules, keep: tuple[str, ...]) -> None:
        self._hashes = hashes
        self._public = public
        self._keep = tuple(f"{package}." for package in keep)

    def frame(self, frame: Frame) -> Frame:
        if frame.kind == "java":
            name = self._method(frame.name)
            file = PurePosixPath(frame.file).name if name == frame.name else self._hashes.file(frame.file)
            return frame._replace(name=name, module=self._class(frame.module), file=file)
        if frame.kind == "class":
            return frame._replace(
                name=self._class(frame.name),
                module=self._class(frame.module),
                file=self._hashes.file(frame.file),
            )
        if frame.kind == "unknown" and is_gap(frame.name):
            return frame._replace(module="", file="")
        base = frame.module
        if frame.kind in ("jvm", "kernel") or self._public.has(base) or (not base and frame.name in HOOKS):
            return frame._replace(file=PurePosixPath(frame.file).name)
        library = self._hashes.library(base) if base else ""
        offset = frame.name.removeprefix(f"{base}+0x") if base else frame.name
        name = f"{library}+0x{offset}" if offset != frame.name else self._hashes.function(frame.name)
        return frame._replace(name=name, module=library, file=self._hashes.file(frame.file))

    def table(self, table: str, columns: Columns) -> Columns:
        """ValueError: texts of an unknown table must not pass."""
        changes = _CHANGES.get(table, {})
        for name, kind in {**APPENDED, **REPLACED}[table].items():
            if kind == "VARCHAR" and name not in changes:
                raise ValueError(f"{table}.{name} has texts")
        changed = {
            name: np.array([change(self, text) for text in columns[name].tolist()], object)
            for name, change in changes.items()
        }
        if table == "modules":
            changed["build_id"] = np.array(
                [
                    build_id if self._public.has(_base(path)) else ""
                    for path, build_id in zip(
                        columns["path"].tolist(), columns["build_id"].tolist(), strict=True
                    )
                ],
                object,
            )
        return {**columns, **changed}

    def info(self, info: Info) -> Info:
        return replace(
            info,
            main_class=self._main(info.main_class),
            command_line=(),
            jvm_flags=public_flags(info.jvm_flags),
            properties={},
            coverage=self._coverage(info.coverage),
            arguments_kept=False,
        )

    def thread(self, name: str) -> str:
        return name if is_vm_thread(name) else self._hashes.thread(name)

    def gauge(self, name: str) -> str:
        if name.startswith(_THREADS):
            return _THREADS + self.thread(name.removeprefix(_THREADS))
        if name.startswith(_MAPPED):
            return f"{_MAPPED}/{self._hashes.word(name)}"
        if name.startswith(_ALLOCATOR):
            allocator = name.removeprefix(_ALLOCATOR)
            return name if allocator in ALLOCATORS else _ALLOCATOR + self._hashes.word(allocator)
        return name if _GAUGE.fullmatch(name) else self._hashes.word(name)

    def owner(self, name: str) -> str:
        return name if _OWNER.fullmatch(name) else self._hashes.word(name)

    def path(self, path: str) -> str:
        """A module's path without its folders, which name users and products."""
        base = _base(path)
        if not path.startswith("/"):
            return path if not path or self._public.has(path) else self._hashes.library(path)
        return f"/{base if self._public.has(base) else self._hashes.library(base)}"

    def collection(self, kind: str) -> str:
        return kind

    def _kept(self, name: str) -> bool:
        return is_jdk(name) or name.startswith(self._keep)

    def _method(self, name: str) -> str:
        if not self._kept(name):
            return self._hashes.java(name)
        # A proxy in a package of the JDK has the application's methods.
        owner, _, method = name.rpartition(".")
        return f"{owner}.{self._hashes.java(method)}" if _PROXY in owner and is_generated(name) else name

    def _class(self, name: str) -> str:
        element = name.rstrip("[]")
        if not name or element in PRIMITIVES or self._kept(f"{element}.") or name == UNKNOWN_CLASS:
            return name
        return self._hashes.java(name)

    def _main(self, name: str) -> str:
        """A class, `module/class`, or an archive."""
        if name.endswith(_LAUNCHED):
            base, ending = PurePosixPath(name).stem, PurePosixPath(name).suffix
            return f"x{self._hashes.word(base)}{ending}"
        if name.startswith(("/", "./")):
            return f"x{self._hashes.word(name)}"
        return (
            self._method(f"{name}.main").removesuffix(f".{self._hashes.java('main')}").removesuffix(".main")
        )

    def _coverage(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """Sentences with hashed names of files, and of programs, which have no suffix."""
        named = [base for base in self._public.others if any(base in sentence for sentence in sentences)]
        programs = "".join(rf"|(?<![\w.-]){re.escape(base)}(?![\w-])" for base in named)
        words = re.compile(_FILE_WORD + programs)
        return tuple(words.sub(self._file, sentence) for sentence in sentences)

    def _file(self, match: re.Match[str]) -> str:
        base = match[0].rpartition("/")[2]
        return base if self._public.has(base) else self._hashes.library(base)


_CHANGES: dict[str, dict[str, Callable[[_Names, str], str]]] = {
    "threads": {"name": _Names.thread},
    "modules": {"path": _Names.path, "build_id": lambda _, text: text},
    "owners": {"owner": _Names.owner},
    "gauges": {"gauge": _Names.gauge},
    "collections": {"kind": _Names.collection},
}


def _base(path: str) -> str:
    return PurePosixPath(path.removesuffix(" (deleted)")).name
