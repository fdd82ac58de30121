"""Raw frames of a live file to model.Frame: symbols, Java methods, words for what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from offheap.probe import contract
from offheap.probe.contract import FrameKind, MethodState, Section
from offheap.probe.live_files import recorded_process
from offheap.probe.live_files.header import damaged
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc.images.mapped_elf import MappedModule
from offheap.recording.model import UNNAMED, Chain, Frame, Kind, Module
from offheap.recording.names.java_names import INEXACT, bytecode_index, class_name, method_name

_PROBE = "liboffheap.so"
# The stack has the compiled method; its debug records lack the inlined method that made the call.
_INLINED = Frame("inlined Java methods missing: no debug record at the call", "unknown")

_UNNAMED_CLASS = Frame("unknown class", "class")

_MOST_NAMES = 6  # of modules in a sentence

# AsyncGetCallTrace's num_frames, negated (HotSpot's forte.cpp).
_GAPS = {
    0: "no Java frame",
    1: "no class was loaded yet",
    2: "a garbage collection was running",
    3: "in VM, last Java frame unknown",
    4: "in VM, not walkable",
    5: "in Java, state unknown",
    6: "in Java, not walkable",
    7: "in an unknown thread state",
    8: "the thread was exiting",
    9: "deoptimizing",
    10: "at a safepoint",
}


class Symbolizer(Protocol):
    """What offheap.symbols.Symbolizer offers here."""

    @property
    def problems(self) -> Mapping[str, str]:
        """Module path -> why its symbols are missing or not to be trusted."""

    def meet(self, modules: Iterable[MappedModule]) -> None:
        """Opens the modules' images while they can be had."""

    def close(self) -> None:
        """Closes the images that nothing has used."""

    def resolve(self, path: str, build_id: str, addresses: Any) -> list[Any]:
        """For each address its Symbols (name, file, line, inlined), innermost first; () when unknown."""


class Naming:
    """Names raw frames of one live file.  Keeps nothing but the modules it has read."""

    def __init__(self, live_file: LiveFile, symbolizer: Symbolizer) -> None:
        self._file = live_file
        self._symbolizer = symbolizer
        self._modules: list[Module] = []

    def close(self) -> None:
        """Closes what is open of modules; names of those can no longer be had for certain."""
        self._symbolizer.close()

    def name(self, raws: Iterable[int], *, final: bool = False) -> dict[int, Chain]:
        """The chain of each raw frame.

        A Java method that the probe has not named yet is left out, so that it can be
        asked for again; `final`: nobody will name it any more, it becomes unknown.
        """
        by_kind: dict[int, list[int]] = {}
        for raw in raws:
            by_kind.setdefault(raw >> contract.FRAME_KIND_SHIFT, []).append(raw)
        chains: dict[int, Chain] = {}
        for kind, members in by_kind.items():
            if kind == FrameKind.NATIVE:
                chains.update(self._native(members))
            elif kind == FrameKind.JAVA:
                chains.update(self._java(members, final))
            elif kind == FrameKind.HOOK:
                chains.update((raw, (_hook(raw),)) for raw in members)
            elif kind == FrameKind.GAP:
                chains.update((raw, (_gap(raw),)) for raw in members)
            elif kind == FrameKind.CLASS:
                chains.update(self._classes(members))
            else:
                mask = contract.FRAME_RAW_ADDRESS_MASK
                chains.update((raw, (Frame(f"{raw & mask:#x}", "unknown"),)) for raw in members)
        return chains

    def problems(self) -> tuple[str, ...]:
        """Why names are missing so far: a sentence each, the modules that share it together."""
        return problems(self._symbolizer)

    def modules(self) -> list[Module]:
        """By module row of a native frame; a row still being written has start 0.

        Each module's image is opened here, long before a frame in it is to be named: many libraries are
        deleted as soon as they are loaded.
        """
        rows = self._file.modules()
        self._modules = [_module(self._file, row) for row in rows]
        self._symbolizer.meet(
            MappedModule(
                module.path,
                module.build_id,
                module.start,
                module.bias,
                (image & contract.IMAGE_DESCRIPTOR) - 1,
                bool(image & contract.IMAGE_IN_MEMORY),
            )
            for module, image in zip(self._modules, rows["image"].tolist(), strict=True)
        )
        return self._modules

    def without_probe(
        self, frames: NDArray[np.uint64], depths: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Stacks, as raw frames in turn and depths, without the probe's own functions.

        It wraps JNI_CreateJavaVM to meet the JVM: below main, nobody needs to read of it.
        """
        modules = self._modules or self.modules()
        own = [n for n, module in enumerate(modules) if PurePosixPath(module.path).name == _PROBE]
        if not own:
            return frames, depths
        first = np.array([FrameKind.NATIVE << 20 | n for n in own], np.uint64)
        keep = ~np.isin(frames >> np.uint64(contract.FRAME_MODULE_SHIFT), first)
        stack = np.repeat(np.arange(len(depths)), depths)
        return frames[keep], np.bincount(stack[keep], minlength=len(depths)).astype(np.int64)

    def _native(self, raws: list[int]) -> dict[int, Chain]:
        by_module: dict[int, list[int]] = {}
        for raw in raws:
            number = (raw >> contract.FRAME_MODULE_SHIFT) & 0xFFFFF
            by_module.setdefault(number, []).append(raw)
        if max(by_module) >= len(self._modules) or not all(self._modules[n].path for n in by_module):
            self.modules()
        chains: dict[int, Chain] = {}
        for number, members in by_module.items():
            addresses = [raw & contract.FRAME_ADDRESS_MASK for raw in members]
            if number >= len(self._modules):
                chains.update(
                    (raw, (Frame(f"{address:#x}", "unknown"),))
                    for raw, address in zip(members, addresses, strict=True)
                )
                continue
            module = self._modules[number]
            chains.update(zip(members, native_chains(self._symbolizer, module, addresses), strict=True))
        return chains

    def _java(self, raws: list[int], final: bool) -> dict[int, Chain]:
        slots = np.array([raw >> contract.FRAME_METHOD_SHIFT & contract.FRAME_METHOD_MASK for raw in raws])
        methods = self._file.methods(slots.astype(np.int64))
        self._file.refresh()  # so that the strings and lines they refer to count as used
        last, lines, read = -1, None, 0
        chains: dict[int, Chain] = {}
        # Method by method: of the line tables, which a file may claim to be huge, one is kept at a time.
        for at in np.argsort(slots, kind="stable").tolist():
            raw, slot, row = raws[at], int(slots[at]), methods[at]
            state = int(row["state"])
            if state == MethodState.NAMED:
                if slot != last:
                    last, lines = slot, self._file.lines(int(row["lines"]), int(row["line_count"]))
                    read += len(lines)
                    if read > self._file.used(Section.LINES):
                        raise damaged(self._file.path, "its methods share their lines")
                frame = self._java_frame(raw, row, lines)
                chains[raw] = (_INLINED, frame) if bytecode_index(raw) == INEXACT else (frame,)
            elif final or state not in (MethodState.FREE, MethodState.SEEN):
                chains[raw] = (UNNAMED,)
        return {raw: chains[raw] for raw in raws if raw in chains}

    def _classes(self, raws: list[int]) -> dict[int, Chain]:
        self._file.refresh()  # so that the signatures count as used
        return {raw: (self._class(raw & contract.FRAME_RAW_ADDRESS_MASK),) for raw in raws}

    def _class(self, signature: int) -> Frame:
        name = class_name(self._file.string(signature))
        return Frame(name, "class", name.rstrip("[]")) if name else _UNNAMED_CLASS

    def _java_frame(self, raw: int, row: Any, lines: Any) -> Frame:
        name = method_name(
            self._file.string(int(row["class_signature"])), self._file.string(int(row["name"]))
        )
        if not name:
            return UNNAMED
        bci = bytecode_index(raw)
        line = 0
        if bci >= 0 and len(lines):
            at = int(np.searchsorted(lines["start"], bci, side="right")) - 1
            line = int(lines["line"][at]) if at >= 0 else 0
        return Frame(name, "java", "", self._file.string(int(row["source_file"])), line)


def native_chains(symbolizer: Symbolizer, module: Module, addresses: list[int]) -> list[Chain]:
    """The functions at return addresses (ELF virtual) in a module; where none is known, MODULE+ADDRESS."""
    base = _base(module)
    kind: Kind = "jvm" if base == "libjvm.so" else "native"
    # Return addresses: the call is the instruction before.
    found = symbolizer.resolve(module.path, module.build_id, [a - 1 for a in addresses])
    chains: list[Chain] = []
    for address, symbols in zip(addresses, found, strict=True):
        unnamed = unnamed_chain(module, address)
        chain = tuple(
            Frame(symbol.name or unnamed[0].name, kind, base, symbol.file, symbol.line, symbol.inlined)
            for symbol in symbols
        )
        chains.append(chain or unnamed)
    return chains


def unnamed_chain(module: Module, address: int) -> Chain:
    """What stands in place of the functions at an address where no symbol is known."""
    base = _base(module)
    if not base:
        return (Frame(f"{address + module.bias:#x}", "unknown"),)
    return (Frame(f"{base}+{address:#x}", "jvm" if base == "libjvm.so" else "native", base),)


def _base(module: Module) -> str:
    return PurePosixPath(module.path.removesuffix(" (deleted)")).name


def problems(symbolizer: Symbolizer) -> tuple[str, ...]:
    """Why names are missing so far: a sentence each, the modules that share it together."""
    modules: dict[str, list[str]] = {}
    for path, problem in sorted(symbolizer.problems.items()):
        names = modules.setdefault(problem, [])
        name = PurePosixPath(path.removesuffix(" (deleted)")).name
        if name not in names:
            names.append(name)
    return tuple(f"{_enumerated(names)}: {problem}" for problem, names in modules.items())


def _enumerated(names: list[str]) -> str:
    left = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {left} more" if left > 0 else "")


def _hook(raw: int) -> Frame:
    number = raw & contract.FRAME_ADDRESS_MASK
    if number >= len(contract.HOOKS):
        return Frame(f"hook {number} of a newer probe", "unknown")
    return Frame(contract.HOOKS[number], "native")


def _gap(raw: int) -> Frame:
    reason = raw & contract.FRAME_ADDRESS_MASK
    if reason == contract.GAP_UNWINDER:
        return Frame("callers missing: the native stack could not be unwound", "unknown")
    words = _GAPS.get(reason, "unknown reason")
    return Frame(f"Java frames missing: {words} (-{reason})", "unknown")


def _module(live_file: LiveFile, row: Any) -> Module:
    if not row["start"]:
        return Module("", "", 0, 0, 0)
    build_id = bytes(row["build_id"][: min(int(row["build_id_bytes"]), 32)]).hex()
    return Module(
        live_file.string(int(row["path"])), build_id, int(row["start"]), int(row["end"]), int(row["bias"])
    )


def symbolizer(pid: int | None) -> Symbolizer:
    """Finds files as the process sees them while it lives, as we see them afterwards."""
    from offheap.symbols import Symbolizer as Files

    return Files(recorded_process.root(pid), pid)
