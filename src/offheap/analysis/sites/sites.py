"""Sites: stacks that share the caller that allocates, with their live and allocated memory.

One JNI call asks for memory several times (inflateInit2_ calls zcalloc, then malloc itself), one C++
container through several layers, one library object at several places: a user wants to see one call.
`grouping` joins stacks by their frames, `born_together` joins the results by their blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.born_together import joined
from offheap.analysis.sites.grouping import Grouping, Traits, by_frames
from offheap.analysis.sites.results import CallPath, Site, SiteKind
from offheap.analysis.stacks.callbacks import callback
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.recording.model import JAVA, MMAP, Recording

Rows = NDArray[Any]

MOST_PATHS = 8
_KINDS: dict[int, SiteKind] = {MMAP: "mmap", JAVA: "java"}


def kind_of(recording: Recording, stack: int) -> SiteKind:
    """What a stack allocates."""
    return _KINDS.get(int(recording.stack_kinds[stack]), "malloc")


def group(recording: Recording) -> Grouping:
    """Sorts the stacks into sites."""
    traits = Traits.of(recording)
    latest = latest_rows(recording, recording.info.live_time or np.inf)
    return joined(recording, by_frames(recording, traits), traits, latest)


@dataclass(frozen=True)
class SiteTable:
    """All sites in arrays by number; a Site is made only for a site that is shown.

    *_bytes, *_blocks  of all stacks of a site
    shown         stack number by site: the member with the most live bytes
    live_order    indices into the recording's live blocks, site by site
    live_bytes_of the bytes that each of them stands for, in that order
    live_threads  the thread that allocated each of them, in that order
    live_offsets  site n has live_order[live_offsets[n]:live_offsets[n + 1]]
    """

    recording: Recording
    grouping: Grouping
    live_bytes: Estimates
    live_blocks: Estimates
    allocated_bytes: Estimates
    allocated_blocks: Estimates
    samples: Floats  # blocks ever sampled, freed or not
    shown: NDArray[np.int64]
    live_order: NDArray[np.int64]
    live_bytes_of: Floats
    live_threads: NDArray[np.uint16]
    live_offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.grouping.members)

    def is_mapped(self, number: int) -> bool:
        return bool(self.recording.stack_kinds[self.grouping.members[number][0]] == MMAP)

    def site(self, number: int) -> Site:
        stack = tuple(self.recording.stack(self.shown.item(number)))
        members = tuple(self.grouping.members[number])
        live_bytes, live_blocks = self.live_bytes.at(number), self.live_blocks.at(number)
        if len(members) > 1:
            paths = self._paths(number)
        else:
            paths = (CallPath(stack[:1], live_bytes, live_blocks),) if live_bytes.low else ()
        return Site(
            kind=kind_of(self.recording, members[0]),
            stack=stack,
            stacks=members,
            shown=self.shown.item(number),
            live_bytes=live_bytes,
            live_blocks=live_blocks,
            allocated_bytes=self.allocated_bytes.at(number),
            allocated_blocks=self.allocated_blocks.at(number),
            threads=self._threads(number),
            paths=paths,
        )

    def held_by_stack(self, number: int) -> dict[int, float]:
        """Live bytes by stack number, for the site's stacks with live memory."""
        stacks = self.recording.live["stack"][self.live_order[self._span(number)]]
        found, at = np.unique(stacks, return_inverse=True)
        held = np.bincount(at, weights=self.live_bytes_of[self._span(number)], minlength=len(found))
        return dict(zip(found.tolist(), held.tolist(), strict=True))

    def _span(self, number: int) -> slice:
        return slice(self.live_offsets.item(number), self.live_offsets.item(number + 1))

    def _paths(self, number: int) -> tuple[CallPath, ...]:
        members = self.grouping.members[number]
        live, own = self.recording.live, self.live_order[self._span(number)]
        stacks, path = np.unique(live["stack"][own], return_inverse=True)
        size, probability = live["size"][own].astype(np.float64), live["probability"][own]
        error = self.recording.info.weight_error
        in_bytes, blocks = holdings(path, live["stack"][own], size, probability, len(stacks), error=error)
        frames_of = [self.recording.stack(stack) for stack in members]
        outer = 0
        for same in zip(*(reversed(stack) for stack in frames_of), strict=False):
            if any(frame != same[0] for frame in same):
                break
            outer += 1
        found = []
        # Frames outside an agent's callback are not part of its path.
        inside = callback(frames_of[0]) is not None
        # The stack shown stays first if another stack holds as much.
        ranked = np.lexsort((-in_bytes.estimate, stacks != self.shown[number]))
        for at in ranked[:MOST_PATHS].tolist():
            stack = self.recording.stack(int(stacks[at]))
            called = callback(stack) if inside else None
            inner = tuple(stack[: called.at + 1] if called else stack[: len(stack) - outer + 1])
            found.append(CallPath(inner, in_bytes.at(at), blocks.at(at)))
        return tuple(found)

    def _threads(self, number: int, most: int = 8) -> tuple[str, ...]:
        """The names of the threads that allocated the live blocks, most bytes first."""
        span = self._span(number)
        held = np.bincount(self.live_threads[span], weights=self.live_bytes_of[span])
        threads = held[: len(self.recording.threads)].nonzero()[0]
        if len(threads) > 1:
            threads = threads[(-held[threads]).argsort(kind="stable")][:most]
        return tuple(self.recording.threads[thread] for thread in threads.tolist())


def table(recording: Recording, grouping: Grouping | None = None) -> SiteTable:
    """Live and allocated memory of every site; zeros for a site without allocations in the recording."""
    grouping = grouping or group(recording)
    count = len(grouping.members)
    # numpy sorts 16-bit numbers in linear time.
    narrow = grouping.of_stack.astype(np.uint16 if count <= 1 << 16 else np.int64)
    site = narrow[recording.live["stack"]]
    order = np.argsort(site, kind="stable")
    site = site[order]
    size = _column(recording, "size", order).astype(np.float64)
    probability = _column(recording, "probability", order)
    # Allocations after the live set was read would look freed.
    until = recording.info.live_time or np.inf
    latest = latest_rows(recording, until)
    shown = _shown(recording, grouping, latest)
    stacks = _column(recording, "stack", order)
    rows = recording.series[latest[latest >= 0]]
    unmet = unmet_paths(rows, grouping.of_stack[rows["stack"]], stacks, count)
    error = recording.info.weight_error
    live_bytes, live_blocks = holdings(site, stacks, size, probability, count, unmet, error)
    in_bytes, in_blocks = allocations(recording, grouping.of_stack, count, until)
    known_stacks = np.flatnonzero(latest >= 0)
    samples = np.bincount(
        grouping.of_stack[known_stacks], recording.series["samples"][latest[known_stacks]], minlength=count
    )

    unseen = (live_bytes.estimate == 0) & (in_blocks.estimate > 0)
    block = np.where(unseen, in_bytes.estimate, 0.0) / np.where(unseen, in_blocks.estimate, 1.0)
    most = estimates.hidden(recording.info.interval_bytes, block)
    live_bytes.high[unseen] = most[unseen]
    known = unseen & (block > 0)
    live_blocks.high[unseen] = np.where(most[unseen] > 0, np.inf, 0.0)
    live_blocks.high[known] = np.round(most[known] / block[known])
    return SiteTable(
        recording=recording,
        grouping=grouping,
        live_bytes=live_bytes,
        live_blocks=live_blocks,
        allocated_bytes=_at_least(in_bytes, live_bytes),
        allocated_blocks=_at_least(in_blocks, live_blocks),
        samples=samples.astype(np.float64, copy=False),
        shown=shown,
        live_order=order,
        live_bytes_of=size / probability,
        live_threads=_column(recording, "thread", order),
        live_offsets=np.concatenate(([0], np.cumsum(np.bincount(site, minlength=count)))),
    )


def holdings(
    groups: NDArray[np.integer],
    stacks: NDArray[np.integer],
    sizes: Floats,
    probabilities: Floats,
    count: int,
    unmet: Floats | None = None,
    error: float = 0.0,
) -> tuple[Estimates, Estimates]:
    """Live bytes and live blocks by group of stacks, from the sampled blocks; both cover the same stacks.

    Every report takes the figures of a site from here.  `unmet`: see `unmet_paths`; `error`: weight_error.
    """
    return (
        estimates.of_groups(groups, sizes, probabilities, count, error=error),
        estimates.of_counts(groups, sizes, probabilities, count, stacks, unmet, error),
    )


def unmet_paths(rows: Rows, groups: NDArray[np.int64], live_stacks: Rows, count: int) -> Floats:
    """By group: the least probability of a block among its sampled stacks without a live block.

    rows    model.SERIES, the latest of each stack; `groups` has the group of each
    """
    met = np.zeros(int(max(rows["stack"].max(initial=0), live_stacks.max(initial=0))) + 1, np.bool_)
    met[live_stacks] = True
    chosen = np.flatnonzero(~met[rows["stack"]] & (rows["samples"] > 0))
    least = np.ones(count)
    blocks = np.maximum(rows["allocated_blocks"][chosen], rows["samples"][chosen])
    np.minimum.at(least, groups[chosen], rows["samples"][chosen] / blocks)
    return least


def _column(recording: Recording, name: str, order: NDArray[np.int64]) -> Rows:
    # A separate column is contiguous: random rows of the whole array cost a cache miss each.
    column: Rows = np.ascontiguousarray(recording.live[name])[order]
    return column


def _shown(recording: Recording, grouping: Grouping, latest: NDArray[np.int64]) -> NDArray[np.int64]:
    """By site: the stack with the most live bytes, or without live bytes the most allocated bytes."""
    stacks = len(grouping.of_stack)
    weights = recording.live["size"] / recording.live["probability"]
    live = np.bincount(recording.live["stack"], weights, minlength=stacks)
    ever = np.zeros(stacks)
    known = latest >= 0
    ever[known] = recording.series["allocated_bytes"][latest[known]]
    best_last = np.lexsort((-np.arange(stacks), ever, live, grouping.of_stack))
    shown = np.zeros(len(grouping.members), np.int64)
    shown[grouping.of_stack[best_last]] = best_last
    return shown


def sites(recording: Recording, grouping: Grouping | None = None) -> list[Site]:
    """Every site that holds or held memory, in the order of the grouping's numbers.

    A site without allocations in the recording has zeros everywhere.
    """
    found = table(recording, grouping)
    return [found.site(number) for number in range(len(found))]


def allocations(
    recording: Recording, groups: NDArray[np.int64], count: int, until: float = np.inf
) -> tuple[Estimates, Estimates]:
    """Bytes and blocks allocated, by group 0..count-1; `groups` has the group of every stack."""
    latest = latest_rows(recording, until)
    stacks = np.flatnonzero(latest >= 0)
    rows = recording.series[latest[stacks]]
    of = groups[stacks]

    def total(name: str) -> Floats:
        return np.bincount(of, weights=rows[name], minlength=count).astype(np.float64, copy=False)

    samples = total("samples")
    in_bytes = estimates.of_many_totals(total("allocated_bytes"), total("allocated_bytes_variance"), samples)
    in_blocks = estimates.of_many_totals(
        total("allocated_blocks"), total("allocated_blocks_variance"), samples
    )
    return in_bytes, in_blocks


def allocated(recording: Recording, groups: NDArray[np.int64], count: int) -> list[tuple[Estimate, Estimate]]:
    """`allocations`, group by group."""
    in_bytes, in_blocks = allocations(recording, groups, count)
    return [(in_bytes.at(number), in_blocks.at(number)) for number in range(count)]


def latest_rows(recording: Recording, until: float = np.inf) -> NDArray[np.int64]:
    """By stack: the row of its latest state in the series, until this time, or -1."""
    last = np.full(len(recording.stack_offsets) - 1, -1, np.int64)
    rows = int(np.searchsorted(recording.series["time"], until, "right"))
    last[recording.series["stack"][:rows]] = np.arange(rows)  # by time: the latest wins
    return last


def _at_least(allocated: Estimates, live: Estimates) -> Estimates:
    """Allocated is at least live: the two estimates come from different sums and may contradict that."""
    estimate = np.maximum(allocated.estimate, live.estimate)
    return Estimates(
        estimate,
        np.minimum(np.maximum(allocated.low, live.low), estimate),
        np.maximum(allocated.high, estimate),
    )
