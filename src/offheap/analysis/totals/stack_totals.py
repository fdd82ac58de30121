"""What each stack holds and ever allocated: the weights of trees and flame graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.sites import latest_rows
from offheap.recording.model import Recording


@dataclass(frozen=True, slots=True)
class StackTotals:
    """Horvitz-Thompson estimates by stack number, at the end of the recording."""

    live_bytes: NDArray[np.float64]
    live_blocks: NDArray[np.float64]
    allocated_bytes: NDArray[np.float64]
    allocated_blocks: NDArray[np.float64]


def stack_totals(recording: Recording) -> StackTotals:
    """Totals of every stack; what a stack allocated is never less than what it holds."""
    count = len(recording.stack_offsets) - 1
    live = recording.live
    weight = 1.0 / live["probability"]
    live_bytes = np.bincount(live["stack"], weights=live["size"] * weight, minlength=count).astype(np.float64)
    live_blocks = np.bincount(live["stack"], weights=weight, minlength=count).astype(np.float64)
    # The live set is read a moment after the counters: a stack's newest block may be in it alone.
    last = latest_rows(recording)
    known = np.flatnonzero(last >= 0)
    rows = recording.series[last[known]]
    allocated_bytes, allocated_blocks = live_bytes.copy(), live_blocks.copy()
    allocated_bytes[known] = np.maximum(live_bytes[known], rows["allocated_bytes"])
    allocated_blocks[known] = np.maximum(live_blocks[known], rows["allocated_blocks"])
    return StackTotals(live_bytes, live_blocks, allocated_bytes, allocated_blocks)


@dataclass(frozen=True, slots=True)
class ThreadShares:
    """Who holds what: each entry is the live bytes of one stack that one thread allocated, by stack."""

    stack: NDArray[np.int64]
    thread: NDArray[np.int64]
    live_bytes: NDArray[np.float64]


def thread_shares(recording: Recording, most: int) -> ThreadShares:
    """At most so many threads of every stack: those that hold most of it."""
    live, threads = recording.live, max(len(recording.threads), 1)
    key = live["stack"].astype(np.int64) * threads + np.minimum(live["thread"], threads - 1)
    pairs, place = np.unique(key, return_inverse=True)
    held = np.bincount(place, live["size"] / live["probability"], minlength=len(pairs)).astype(np.float64)
    stack = pairs // threads
    order = np.lexsort((-held, stack))
    pairs, held, stack = pairs[order], held[order], stack[order]
    starts = np.flatnonzero(np.diff(stack, prepend=-1))
    rank = np.arange(len(stack)) - np.repeat(starts, np.diff(starts, append=len(stack)))
    kept = rank < most
    return ThreadShares(stack[kept], pairs[kept] % threads, held[kept])
