"""Completes the native frames of a recording: names, files and lines that the recorded machine lacks.

Only a file with the build-id of the recorded module is used, so a name is right or missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from offheap.probe import contract
from offheap.probe.contract import FrameKind
from offheap.recording.model import Frame, Module
from offheap.recording.names.java_names import class_name
from offheap.recording.names.naming import Symbolizer, native_chains, unnamed_chain
from offheap.rewriting.content import Content
from offheap.symbols.generated.generated_code import Code, GeneratedCode

NO_BUILD_ID = "the recording has no build-id of it, so no file can be told to be the same"


@dataclass(frozen=True, slots=True)
class Missing:
    """A module with frames that still have no name.  `why`: "" if its symbols lack these addresses."""

    path: str
    build_id: str
    frames: int
    why: str


@dataclass
class NamedFrames:
    """Numbers of frames, which are return addresses.

    unnamed  frames that had no name before
    named    the part of these that have one now
    located  frames that had a name, and have file and line now
    missing  modules, by the number of their frames that have no name
    """

    unnamed: int = 0
    named: int = 0
    located: int = 0
    missing: list[Missing] = field(default_factory=list)


def symbolize(content: Content, symbolizer: Symbolizer, generated: GeneratedCode | None) -> NamedFrames:
    """Changes the chains and the coverage of `content`."""
    outcome = NamedFrames()
    left: Counter[int] = Counter()
    for number, frames in sorted(_incomplete(content).items()):
        module = content.modules[number]
        addresses = [content.raws[frame] & contract.FRAME_ADDRESS_MASK for frame in frames]
        if module.build_id:
            found = native_chains(symbolizer, module, addresses)
        else:
            found = [unnamed_chain(module, address) for address in addresses]
        for frame, address, new in zip(frames, addresses, found, strict=True):
            nothing = unnamed_chain(module, address)
            before = content.chains[frame]
            if before == nothing:
                outcome.unnamed += 1
                if new == nothing:
                    left[number] += 1
                else:
                    outcome.named += 1
                    content.chains[frame] = new
            elif new != nothing and any(function.file for function in new):
                outcome.located += 1
                content.chains[frame] = new
    if generated:
        _name_generated(content, generated, outcome)
    outcome.missing = [
        Missing(module.path, module.build_id, count, _why(module, symbolizer.problems))
        for number, count in left.most_common()
        for module in (content.modules[number],)
    ]
    kept = _sentences(content.info.coverage, content.modules, left)
    content.info = replace(content.info, coverage=kept)
    return outcome


def _incomplete(content: Content) -> dict[int, list[int]]:
    """Frames of modules that have no name, or no file, by the module's number."""
    found: dict[int, list[int]] = {}
    for frame, chain in content.chains.items():
        raw = content.raws[frame]
        number = raw >> contract.FRAME_MODULE_SHIFT & 0xFFFFF
        if raw >> contract.FRAME_KIND_SHIFT != FrameKind.NATIVE or number >= len(content.modules):
            continue
        if not any(function.file for function in chain):
            found.setdefault(number, []).append(frame)
    return found


def _name_generated(content: Content, generated: GeneratedCode, outcome: NamedFrames) -> None:
    """Names addresses that are in no module."""
    for frame, chain in content.chains.items():
        raw = content.raws[frame]
        if raw >> contract.FRAME_KIND_SHIFT != FrameKind.ADDRESS or len(chain) != 1:
            continue
        address = raw & contract.FRAME_RAW_ADDRESS_MASK
        if chain[0].name != f"{address:#x}":
            continue
        outcome.unnamed += 1
        # A return address: the call is the instruction before.
        code = generated.at(address - 1)
        if code:
            content.chains[frame] = (_generated(code),)
            outcome.named += 1


def _generated(code: Code) -> Frame:
    if not code.java:
        return Frame(code.name, "jvm")
    owner, _, method = code.name.rpartition(".")
    return Frame(f"{class_name('L' + owner.replace('.', '/') + ';')}.{method}", "java")


def _why(module: Module, problems: Mapping[str, str]) -> str:
    return problems.get(module.path, "") if module.build_id else NO_BUILD_ID


def _sentences(coverage: Sequence[str], modules: Sequence[Module], left: Iterable[int]) -> tuple[str, ...]:
    """The recording's sentences; those about missing names only for modules that still lack some."""
    bases = {_base(module) for module in modules}
    lacking = {_base(modules[number]) for number in left}
    kept = []
    for sentence in coverage:
        names, colon, why = sentence.partition(": ")
        listed = names.split(", ")
        # "a.so, b.so and 3 more" does not list them all.
        if not colon or not set(listed) <= bases:
            kept.append(sentence)
            continue
        still = [name for name in listed if name in lacking]
        if still:
            kept.append(f"{', '.join(still)}: {why}")
    return tuple(kept)


def _base(module: Module) -> str:
    return PurePosixPath(module.path.removesuffix(" (deleted)")).name
