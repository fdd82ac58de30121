"""Matches the sites of several recordings whose builds, and so addresses, differ.

Sites are as in `sites`.  Their names omit the parts that change between builds or runs:
line numbers, addresses in images that differ, the versions in names of libraries, parameter lists, the
suffixes of the compiler's clones, what the compiler inlined, and the numbers of lambdas and generated
classes.  Between JDKs of different feature versions the names also omit the JDK's own Java frames, in
stacks that have others: the call paths inside its thread pools differ in every version.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.grouping import Traits, by_frames
from offheap.analysis.sites.sites import group
from offheap.analysis.stacks import cxx_names, frames
from offheap.recording.model import Frame, Recording

_ADDRESS = re.compile(r"(.*?)\+?0x[0-9a-f]+$")
_CLONE = re.compile(r"(?:\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*)+$| ?\[clone [^]]*\]")
_LIBRARY_VERSION = re.compile(r"\.so(?:\.\d+)+$")
# javac numbers lambdas through the file; proxies, CGLIB and Byte Buddy number or hash what they generate.
_GENERATED = re.compile(
    r"(lambda\$\w*?)\$\d+(?=$|\$)|(\$Proxy)\d+|jdk\.(proxy)\d+|"
    r"(\$\$\w*(?:CGLIB|Guice)\w*)\$\$[0-9a-f]+|(\$ByteBuddy\$)\w+"
)


# Traits of a frame.  Own: Java, and not the JDK's; glue: does not count, like inlined frames.
_JAVA, _OWN, _GLUE, _WRAPPER = 1, 2, 4, 8

_Label = tuple[str, str, str]  # of a frame: name, kind, module


@dataclass(frozen=True)
class Matching:
    """Sites and functions numbered alike in all the recordings.

    sites      by recording: the site's number by stack number
    functions  by recording: the function's number by frame number; -1 for an inlined native frame
    wrappers   by recording: by frame number, whether the function allocates for its caller
    """

    sites: list[NDArray[np.int64]]
    functions: list[NDArray[np.int64]]
    wrappers: list[NDArray[np.bool_]]
    site_count: int
    function_count: int


def match(recordings: Sequence[Recording]) -> Matching:
    """Numbers the sites and functions of the recordings; equal names get the same number."""
    builds = [{_base(module.path): module.build_id for module in r.modules} for r in recordings]
    same = {
        module
        for module, build in builds[0].items()
        if build and all(other.get(module) == build for other in builds)
    }
    same_jdk = len({feature_version(r.info.java_version) for r in recordings}) == 1
    functions = _Functions(same)
    sites: dict[tuple[int, bytes], int] = {}
    of_stack, of_frame, wrappers = [], [], []
    for recording in recordings:
        numbers, traits = functions.of(recording.frames)
        of_frame.append(numbers)
        of_stack.append(_sites(recording, numbers, traits, sites, same_jdk))
        wrappers.append(traits & _WRAPPER > 0)
    # The blocks of the newer recording decide which sites are joined, so a diff agrees with its suspects.
    groupings = [by_frames(recording, Traits.of(recording)).grouping for recording in recordings[:-1]]
    groupings.append(group(recordings[-1]))
    count = _join(of_stack, [grouping.members for grouping in groupings])
    return Matching(of_stack, of_frame, wrappers, count, len(functions))


def _join(of_stack: list[NDArray[np.int64]], sites: Sequence[Sequence[Sequence[int]]]) -> int:
    """Gives stacks that are one site in any recording one number, in place; returns the count of numbers."""
    leader: dict[int, int] = {}

    def find(number: int) -> int:
        while number in leader:
            number = leader[number]
        return number

    for numbers, members in zip(of_stack, sites, strict=True):
        for stacks in members:
            first = find(int(numbers[stacks[0]]))
            for stack in stacks[1:]:
                other = find(int(numbers[stack]))
                if other != first:
                    leader[other] = first
    known: dict[int, int] = {}
    for numbers in of_stack:
        numbers[:] = [known.setdefault(find(number), len(known)) for number in numbers.tolist()]
    return len(known)


def feature_version(java_version: str) -> str:
    """`17.0.9` -> `17`, `1.8.0_392` -> `8`."""
    parts = re.split(r"[._+-]", java_version)
    return parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]


def function_name(frame: Frame, same_images: frozenset[str] | set[str] = frozenset()) -> tuple[str, str]:
    """The name of a function that all builds share, and the module without its version ("" for Java).

    Addresses stay if the image is one of `same_images`, base names of files.
    """
    if frame.kind in ("java", "class"):
        name = frames.stable_name(frame)
        # Most names have neither, and the regular expression is slow on them.
        return _GENERATED.sub(_kept, name) if "$" in name or "proxy" in name else name, ""
    module = _LIBRARY_VERSION.sub(".so", frame.module) if ".so." in frame.module else frame.module
    address = _ADDRESS.match(frame.name) if "0x" in frame.name else None
    if address:
        return (frame.name if frame.module in same_images else address[1] or "?"), module
    name = _CLONE.sub("", frame.name) if "." in frame.name or "[clone" in frame.name else frame.name
    return cxx_names.without_parameters(name), module


class _Functions:
    """Numbers functions by the names that all builds share, and notes the kind of each function.

    A function has a frame for each of its lines in each recording, but is examined once.
    """

    def __init__(self, same_images: set[str]) -> None:
        self._same_images = same_images
        self._numbers: dict[tuple[str, str, bool], int] = {}
        self._known: dict[_Label, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, of: Sequence[Frame]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """By frame: the number of its function (-1 for an inlined native function) and its traits."""
        labels: list[_Label] = [frame[:3] for frame in of]
        for place, label in enumerate(labels):
            if label not in self._known:
                self._known[label] = self._new(of[place])
        numbers, traits = np.array([self._known[label] for label in labels], np.int64).reshape(-1, 2).T
        inlined = np.array([frame.inlined for frame in of], np.bool_) & (traits & _JAVA == 0)
        return np.where(inlined, -1, numbers), traits.astype(np.uint8)

    def _new(self, frame: Frame) -> tuple[int, int]:
        name, module = function_name(frame, self._same_images)
        number = self._numbers.setdefault((name, module, frame.kind == "java"), len(self._numbers))
        if frame.kind != "java":
            return number, _WRAPPER if frames.is_wrapper(frame) else 0
        glue = _GLUE if frames.is_glue(frame) else 0
        return number, _JAVA | glue | (0 if frames.is_jdk(frame) else _OWN)


def _sites(
    recording: Recording,
    functions: NDArray[np.int64],
    traits: NDArray[np.uint8],
    numbers: dict[tuple[int, bytes], int],
    same_jdk: bool,
) -> NDArray[np.int64]:
    """A site's key is the joined functions of its frames that count; computed for all stacks at once."""
    flat, starts, ends = recording.stack_frames, recording.stack_offsets[:-1], recording.stack_offsets[1:]
    depths = ends - starts
    # There may be millions of frames: each has a byte for traits and 32 bits for its index.
    trait = np.where(functions < 0, traits | _GLUE, traits)[flat]
    place = np.arange(len(flat), dtype=np.int32)

    def first(wanted: NDArray[np.bool_], otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
        """By stack: the index of its first such frame."""
        places = np.append(np.flatnonzero(wanted), len(flat))
        found = places[np.searchsorted(places, starts)]
        return np.where(found < ends, found, otherwise)

    inner = first(trait & _JAVA > 0, ends)
    has_java = inner < ends
    allocating = first(trait & (_GLUE | _WRAPPER) == 0, np.maximum(ends - 1, starts))
    counts = trait & _GLUE == 0
    counting = np.append(-1, np.flatnonzero(counts))
    entry = counting[np.searchsorted(counting, inner) - 1]  # the native function that Java called
    kept = counts & (place >= np.repeat(np.where(has_java, inner, allocating).astype(np.int32), depths))
    if not same_jdk:
        own = kept & (trait & _OWN > 0)
        total = np.append(0, np.cumsum(own))
        kept &= own | np.repeat(total[ends] == total[starts], depths)
    kept[entry[has_java & (entry >= starts)]] = True

    key = functions.astype(np.int32)[flat[kept]].tobytes()
    cuts = 4 * np.append(0, np.cumsum(kept))[recording.stack_offsets]
    keys = zip(recording.stack_kinds.tolist(), itertools.pairwise(cuts.tolist()), strict=True)
    return np.array(
        [numbers.setdefault((kind, key[low:high]), len(numbers)) for kind, (low, high) in keys], np.int64
    )


def _kept(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _base(path: str) -> str:
    return path.rpartition("/")[2]
