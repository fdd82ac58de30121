"""Sites: stacks that share the caller that allocates, with what is live and what was allocated.

One JNI call asks for memory several times (inflateInit2_ calls zcalloc, then malloc itself) and one
C++ container through several layers: people mean the call.  Two stacks belong to one site if they
are of one kind (malloc, mmap) and agree

- with Java frames: in the native function that Java called and in all Java frames outside it (and
  all native frames outside those), by name and line;
- without: in everything outside the allocator's wrappers.

Frames that the JVM generates as it warms up (reflection, method handles) and the numbers of hidden
classes do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis import estimates, frames
from offheap.analysis.results import Estimate, Site
from offheap.recording.model import Recording

MALLOC, MMAP = 1, 2  # enum offheap_stack_kind

_Key = tuple[int, ...]


@dataclass(frozen=True)
class Grouping:
    """Which stack belongs to which site.

    of_stack  site number by stack number
    members   stack numbers by site number
    """

    of_stack: NDArray[np.int64]
    members: list[list[int]]


def group(recording: Recording) -> Grouping:
    """Sort the stacks into sites; one pass over the frames of each stack."""
    names: dict[tuple[str, int, str], int] = {}
    identity: list[int] = []
    # Once per distinct frame, not per occurrence: 10,000 stacks share a few thousand frames.
    for frame in recording.frames:
        key = (frames.stable_name(frame), frame.line, "" if frame.kind == "java" else frame.module)
        identity.append(names.setdefault(key, len(names)))
    # A JNI function or wrapper is one function whatever the line within it that called the allocator.
    functions: dict[tuple[str, str], int] = {}
    function = [-1 - functions.setdefault((f.name, f.module), len(functions)) for f in recording.frames]
    java = [frame.kind == "java" for frame in recording.frames]
    glue = [frames.is_glue(frame) for frame in recording.frames]
    wrapper = [frames.is_wrapper(frame) for frame in recording.frames]

    numbers: dict[_Key, int] = {}
    members: list[list[int]] = []
    stacks = len(recording.stack_offsets) - 1
    of_stack = np.zeros(stacks, np.int64)
    indices = recording.stack_frames.tolist()
    offsets = recording.stack_offsets.tolist()
    kinds = recording.stack_kinds.tolist()
    for stack in range(stacks):
        own = indices[offsets[stack] : offsets[stack + 1]]
        inner = next((i for i, index in enumerate(own) if java[index]), None)
        if inner is None:
            start = next((i for i, index in enumerate(own) if not wrapper[index]), max(len(own) - 1, 0))
            # The innermost function may call the allocator at several places: one site.
            outer = [function[own[start]]] if own else []
            outer += [identity[index] for index in own[start + 1 :]]
        else:
            outer = [function[own[inner - 1]]] if inner else []
            outer += [identity[index] for index in own[inner:] if not glue[index]]
        number = numbers.setdefault((kinds[stack], *outer), len(numbers))
        if number == len(members):
            members.append([])
        members[number].append(stack)
        of_stack[stack] = number
    return Grouping(of_stack, members)


def sites(recording: Recording, grouping: Grouping | None = None) -> list[Site]:
    """Every site that holds or ever held memory, in the order of the grouping's numbers.

    A site that never allocated while recording has zeros everywhere.
    """
    grouping = grouping or group(recording)
    count = len(grouping.members)
    site = grouping.of_stack[recording.live["stack"]]
    order = np.argsort(site, kind="stable")
    site, live = site[order], recording.live[order]
    size = live["size"].astype(np.float64)
    probability = live["probability"]
    live_bytes = estimates.of_groups(site, size, probability, count)
    live_blocks = estimates.of_groups(site, np.ones(len(size)), probability, count)
    stack_bytes = np.bincount(
        live["stack"], weights=size / probability, minlength=len(grouping.of_stack)
    ).tolist()
    names = _threads(recording, site, live["thread"], size / probability, count)
    ever = allocated(recording, grouping.of_stack, count)

    result = []
    for number, stacks in enumerate(grouping.members):
        allocated_bytes, allocated_blocks = ever[number]
        in_bytes, in_blocks = live_bytes[number], live_blocks[number]
        if in_blocks.estimate == 0 and allocated_blocks.estimate > 0:
            block = allocated_bytes.estimate / allocated_blocks.estimate
            in_bytes, in_blocks = estimates.none_sampled(recording.info.interval_bytes, block)
        shown = max(stacks, key=stack_bytes.__getitem__)
        result.append(
            Site(
                kind="mmap" if recording.stack_kinds[stacks[0]] == MMAP else "malloc",
                stack=tuple(recording.stack(shown)),
                stacks=tuple(stacks),
                live_bytes=in_bytes,
                live_blocks=in_blocks,
                allocated_bytes=_at_least(allocated_bytes, in_bytes),
                allocated_blocks=_at_least(allocated_blocks, in_blocks),
                threads=names[number],
            )
        )
    return result


def allocated(recording: Recording, groups: NDArray[np.int64], count: int) -> list[tuple[Estimate, Estimate]]:
    """Bytes and blocks ever allocated, by group 0..count-1; `groups` has the group of every stack."""
    latest = latest_rows(recording)
    stacks = np.flatnonzero(latest >= 0)
    rows = recording.series[latest[stacks]]
    of = groups[stacks]
    samples, in_bytes, bytes_variance, in_blocks, blocks_variance = (
        np.bincount(of, weights=rows[name], minlength=count).tolist()
        for name in (
            "samples",
            "allocated_bytes",
            "allocated_bytes_variance",
            "allocated_blocks",
            "allocated_blocks_variance",
        )
    )
    return [
        (
            estimates.of_totals(in_bytes[group], bytes_variance[group], samples[group]),
            estimates.of_totals(in_blocks[group], blocks_variance[group], samples[group]),
        )
        for group in range(count)
    ]


def latest_rows(recording: Recording) -> NDArray[np.int64]:
    """By stack: the row of its latest state in the series, or -1."""
    last = np.full(len(recording.stack_offsets) - 1, -1, np.int64)
    last[recording.series["stack"]] = np.arange(len(recording.series))  # by time: the latest wins
    return last


def _threads(
    recording: Recording,
    site: NDArray[np.int64],
    thread: NDArray[np.uint16],
    weights: NDArray[np.float64],
    count: int,
    most: int = 8,
) -> list[tuple[str, ...]]:
    """By site: the names of the threads that allocated what is live, most bytes first."""
    result: list[list[str]] = [[] for _ in range(count)]
    if len(site):
        width = max(len(recording.threads), 1)
        pairs = site * width + thread
        if count * width <= 4 * len(site):
            held = np.bincount(pairs, weights=weights)
            pairs = np.flatnonzero(held)
            held = held[pairs]
        else:  # a table of every site and every thread would be mostly empty
            pairs, inverse = np.unique(pairs, return_inverse=True)
            held = np.bincount(inverse, weights=weights)
        for index in np.lexsort((-held, pairs // width)).tolist():
            number, row = divmod(int(pairs[index]), width)
            if len(result[number]) < most and row < len(recording.threads):
                result[number].append(recording.threads[row])
    return [tuple(names) for names in result]


def _at_least(allocated: Estimate, live: Estimate) -> Estimate:
    """What is live was allocated: two estimates from different sums must not contradict that."""
    estimate = max(allocated.estimate, live.estimate)
    return Estimate(estimate, min(max(allocated.low, live.low), estimate), max(allocated.high, estimate))
