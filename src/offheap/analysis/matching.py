"""Which stacks of several recordings are the same site, though the builds, and so the addresses, differ.

Sites are as in `analysis.sites`, with what changes from one build or run to the next left out of the names:
line numbers, addresses in images that differ, the versions in names of libraries, parameter lists, the
suffixes of the compiler's clones, what the compiler inlined, and the numbers of lambdas and generated
classes.  Between JDKs of different feature versions the JDK's own Java frames are left out as well, in
stacks that have others: its thread pools call each other differently in every one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap import cxx_names
from offheap.analysis import frames
from offheap.recording.model import Frame, Recording

_ADDRESS = re.compile(r"(.*?)\+?0x[0-9a-f]+$")
_CLONE = re.compile(r"(?:\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*)+$| ?\[clone [^]]*\]")
_LIBRARY_VERSION = re.compile(r"\.so(?:\.\d+)+$")
# javac numbers lambdas through the file; proxies, CGLIB and Byte Buddy number or hash what they generate.
_GENERATED = re.compile(
    r"(lambda\$\w*?)\$\d+(?=$|\$)|(\$Proxy)\d+|jdk\.(proxy)\d+|"
    r"(\$\$\w*(?:CGLIB|Guice)\w*)\$\$[0-9a-f]+|(\$ByteBuddy\$)\w+"
)


@dataclass(frozen=True)
class Matching:
    """Sites and functions numbered alike in all the recordings.

    sites      by recording: the site's number by stack number
    functions  by recording: the function's number by frame number; -1 for an inlined native frame
    """

    sites: list[NDArray[np.int64]]
    functions: list[NDArray[np.int64]]
    site_count: int
    function_count: int


def match(recordings: Sequence[Recording]) -> Matching:
    """Number the sites and functions of the recordings, the same number for what is the same by name."""
    builds = [{_base(module.path): module.build_id for module in r.modules} for r in recordings]
    same = {
        module
        for module, build in builds[0].items()
        if build and all(other.get(module) == build for other in builds)
    }
    same_jdk = len({feature_version(r.info.java_version) for r in recordings}) == 1
    functions: dict[tuple[str, str, bool], int] = {}
    sites: dict[tuple[int, ...], int] = {}
    of_stack, of_frame = [], []
    for recording in recordings:
        numbers = [
            -1 if frame.inlined and frame.kind != "java" else _number(functions, frame, same)
            for frame in recording.frames
        ]
        of_frame.append(np.array(numbers, np.int64))
        of_stack.append(_sites(recording, numbers, sites, same_jdk))
    return Matching(of_stack, of_frame, len(sites), len(functions))


def feature_version(java_version: str) -> str:
    """`17.0.9` -> `17`, `1.8.0_392` -> `8`."""
    parts = re.split(r"[._+-]", java_version)
    return parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]


def function_name(frame: Frame, same_images: frozenset[str] | set[str] = frozenset()) -> tuple[str, str]:
    """What a function is called in every build, and the module without its version ("" for Java).

    Addresses stay where the image is one of `same_images`, base names of files.
    """
    if frame.kind == "java":
        return _GENERATED.sub(_kept, frames.stable_name(frame)), ""
    module = _LIBRARY_VERSION.sub(".so", frame.module)
    address = _ADDRESS.match(frame.name)
    if address:
        return (frame.name if frame.module in same_images else address[1] or "?"), module
    return cxx_names.without_parameters(_CLONE.sub("", frame.name)), module


def _number(numbers: dict[tuple[str, str, bool], int], frame: Frame, same: set[str]) -> int:
    name, module = function_name(frame, same)
    return numbers.setdefault((name, module, frame.kind == "java"), len(numbers))


def _sites(
    recording: Recording, functions: list[int], numbers: dict[tuple[int, ...], int], same_jdk: bool
) -> NDArray[np.int64]:
    java = [frame.kind == "java" for frame in recording.frames]
    skipped = [functions[i] < 0 or frames.is_glue(frame) for i, frame in enumerate(recording.frames)]
    wrapper = [skipped[i] or frames.is_wrapper(frame) for i, frame in enumerate(recording.frames)]
    jdk = [not same_jdk and frames.is_jdk(frame) for frame in recording.frames]
    indices = recording.stack_frames.tolist()
    offsets = recording.stack_offsets.tolist()
    kinds = recording.stack_kinds.tolist()
    result = np.zeros(len(offsets) - 1, np.int64)
    for stack in range(len(offsets) - 1):
        own = indices[offsets[stack] : offsets[stack + 1]]
        inner = next((i for i, index in enumerate(own) if java[index]), None)
        if inner is None:
            start = next((i for i, index in enumerate(own) if not wrapper[index]), max(len(own) - 1, 0))
            key = [functions[index] for index in own[start:] if not skipped[index]]
        else:
            native = next((index for index in reversed(own[:inner]) if not skipped[index]), None)
            outer = [index for index in own[inner:] if not skipped[index]]
            key = [] if native is None else [functions[native]]
            if not same_jdk:
                outer = [index for index in outer if java[index] and not jdk[index]] or outer
            key += [functions[index] for index in outer]
        result[stack] = numbers.setdefault((kinds[stack], *key), len(numbers))
    return result


def _kept(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _base(path: str) -> str:
    return path.rpartition("/")[2]
