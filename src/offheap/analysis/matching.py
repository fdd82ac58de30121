"""Which stacks of several recordings are the same site, though the builds, and so the addresses, differ.

Sites are as in `analysis.sites`, with what changes from one build or run to the next left out of the names:
line numbers, addresses in images that differ, the versions in names of libraries, parameter lists, the
suffixes of the compiler's clones, what the compiler inlined, and the numbers of lambdas and generated
classes.  Between JDKs of different feature versions the JDK's own Java frames are left out as well, in
stacks that have others: its thread pools call each other differently in every one.
"""

from __future__ import annotations

import itertools
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
    known: dict[tuple[str, str, str], int] = {}
    functions: dict[tuple[str, str, bool], int] = {}
    sites: dict[tuple[int, bytes], int] = {}
    of_stack, of_frame = [], []
    for recording in recordings:
        numbers = _numbers(recording, known, functions, same)
        of_frame.append(numbers)
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
        name = frames.stable_name(frame)
        # Most names have neither, and the expression takes its time to find that out.
        return _GENERATED.sub(_kept, name) if "$" in name or "proxy" in name else name, ""
    module = _LIBRARY_VERSION.sub(".so", frame.module)
    address = _ADDRESS.match(frame.name) if "0x" in frame.name else None
    if address:
        return (frame.name if frame.module in same_images else address[1] or "?"), module
    return cxx_names.without_parameters(_CLONE.sub("", frame.name)), module


def _numbers(
    recording: Recording,
    known: dict[tuple[str, str, str], int],
    functions: dict[tuple[str, str, bool], int],
    same: set[str],
) -> NDArray[np.int64]:
    # A function has a frame for each of its lines, in each of the recordings: `known` has its number by
    # the name that it has there, `functions` by the name that all builds share.
    result = []
    for frame in recording.frames:
        if frame.inlined and frame.kind != "java":
            result.append(-1)
            continue
        key = (frame.name, frame.module, frame.kind)
        number = known.get(key)
        if number is None:
            name, module = function_name(frame, same)
            number = functions.setdefault((name, module, frame.kind == "java"), len(functions))
            known[key] = number
        result.append(number)
    return np.array(result, np.int64)


def _sites(
    recording: Recording,
    functions: NDArray[np.int64],
    numbers: dict[tuple[int, bytes], int],
    same_jdk: bool,
) -> NDArray[np.int64]:
    """A site's key is the functions of those of its frames that count, joined; all stacks at once."""
    java, glue, wraps, own = _traits(recording)
    skipped = (functions < 0) | glue
    flat, starts, ends = recording.stack_frames, recording.stack_offsets[:-1], recording.stack_offsets[1:]
    # 32 bits: there may be millions of frames.
    stack = np.repeat(np.arange(len(starts), dtype=np.int32), ends - starts)
    place = np.arange(len(flat), dtype=np.int32)

    def first(wanted: NDArray[np.bool_], otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = otherwise.copy()
        found[stack[wanted][::-1]] = place[wanted][::-1]  # of several the last assignment wins
        return found

    def last(wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.full(len(starts), -1, np.int64)
        found[stack[wanted]] = place[wanted]
        return found

    counts = ~skipped[flat]
    inner = first(java[flat], ends)
    outside = place >= inner[stack]
    entry = last(~outside & counts)  # the native function that Java called
    if not same_jdk:
        application = outside & counts & (java & own)[flat]
        outside &= application | (np.bincount(stack[application], minlength=len(starts)) == 0)[stack]
    with_java = (inner < ends)[stack]
    allocating = first(~(skipped | wraps)[flat], np.maximum(ends - 1, starts))
    kept = counts & np.where(with_java, outside | (place == entry[stack]), place >= allocating[stack])

    key = functions.astype(np.int32)[flat[kept]].tobytes()
    cuts = 4 * np.concatenate(([0], np.cumsum(np.bincount(stack[kept], minlength=len(starts)))))
    keys = zip(recording.stack_kinds.tolist(), itertools.pairwise(cuts.tolist()), strict=True)
    return np.array(
        [numbers.setdefault((kind, key[low:high]), len(numbers)) for kind, (low, high) in keys], np.int64
    )


def _traits(recording: Recording) -> tuple[NDArray[np.bool_], ...]:
    """By frame: whether it is Java's, glue, an allocator's wrapper, not the JDK's."""
    of = recording.frames
    tests = (lambda frame: frame.kind == "java", frames.is_glue, frames.is_wrapper)
    java, glue, wraps = (np.fromiter(map(test, of), np.bool_, len(of)) for test in tests)
    return java, glue, wraps, ~np.fromiter(map(frames.is_jdk, of), np.bool_, len(of))


def _kept(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _base(path: str) -> str:
    return path.rpartition("/")[2]
