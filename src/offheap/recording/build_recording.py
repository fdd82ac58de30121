"""Builds a model.Recording from its tables, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.recording.calls import Calls
from offheap.recording.java_objects import apart
from offheap.recording.model import (
    LIVE,
    PROCESS,
    SERIES,
    UNNAMED,
    Chain,
    Collections,
    Frame,
    HeapInUse,
    Info,
    Module,
    OwnersOverTime,
    Recording,
)

Rows = NDArray[Any]
Named = tuple[NDArray[np.float64], list[str], NDArray[np.float64]]  # times, names, values

# More stacks than any probe has room for: a larger number is damage, and would cost that much memory.
_MOST_STACKS = 1 << 24
# Stacks and frames are numbered without gaps, as they come: a recorder that was killed may lack some rows.
_SPARSE, _FEW = 4, 1 << 20
_MOST_INLINED = 4  # functions in a frame, on average
# 32,000 readings, which is ten days, of a thousand names.
_MOST_CELLS = 1 << 25


@dataclass
class NumberedStacks:
    """Stacks by number; `frames` are frame numbers, stack after stack, innermost first.

    A frame number stands for a chain: one function, or several where the compiler inlined.
    """

    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    kinds: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    depths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    frames: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def assemble(
    info: Info,
    stacks: NumberedStacks,
    chains: Iterable[tuple[int, Chain]],
    threads: Sequence[str],
    modules: list[Module],
    live: Rows,
    series: Rows,
    process: Rows,
    owners: OwnersOverTime | None = None,
    collections: Collections | None = None,
    heap: HeapInUse | None = None,
    calls: tuple[NDArray[np.int32], NDArray[np.uint64]] | None = None,
) -> Recording:
    """Expands inlined chains, makes frames distinct, gives every stack number its place.

    Java objects are set apart.  A frame without a chain was not named in time; a stack that live or series
    mention and that is not there has no frames.  ValueError when numbers are out of all bounds.

    calls  by frame number: (module or -1, ELF virtual address)
    """
    stacks = _sorted(stacks)
    count = 1 + max(
        int(stacks.numbers[-1]) if len(stacks.numbers) else 0,
        int(live["stack"].max()) if len(live) else 0,
        int(series["stack"].max()) if len(series) else 0,
    )
    rows = len(stacks.numbers) + len(live) + len(series)
    if count > min(_MOST_STACKS, _SPARSE * rows + _FEW):
        raise ValueError(f"stack number {count - 1}")
    frames, table = _chain_table(stacks.frames, chains)
    expanded, lengths = table.expand(stacks.frames)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    ends = np.cumsum(stacks.depths)
    depths = np.zeros(count, np.int64)
    depths[stacks.numbers] = bounds[ends] - bounds[ends - stacks.depths]
    kinds = np.zeros(count, np.uint8)
    kinds[stacks.numbers] = stacks.kinds
    live["thread"][live["thread"] >= max(1, len(threads))] = 0
    whole = Recording(
        info=info,
        frames=frames,
        stack_frames=expanded,
        stack_offsets=np.concatenate(([0], np.cumsum(depths))).astype(np.int64),
        stack_kinds=kinds,
        threads=list(threads) or ["other threads"],
        modules=modules,
        live=live.astype(LIVE, copy=False),
        series=series.astype(SERIES, copy=False),
        process=process.astype(PROCESS, copy=False),
        owners=owners or OwnersOverTime.none(),
        collections=collections,
        heap=heap or HeapInUse.none(),
        calls=Calls(np.repeat(stacks.frames, lengths).astype(np.int32), *calls) if calls else None,
    )
    return apart(whole)


def readings(owners: Named, gauges: Named) -> OwnersOverTime:
    """The rows of both tables, side by side; a reading of which only the gauges were written is left out.

    ValueError when a time or an owner's bytes are no number.
    """
    times, columns, held = _pivot(owners, np.unique(owners[0]), 0.0)
    _, names, values = _pivot(gauges, times, np.nan)
    return OwnersOverTime(times, columns, held, held.sum(axis=1), dict(zip(names, values.T, strict=True)))


def _pivot(
    rows: Named, times: NDArray[np.float64], missing: float
) -> tuple[NDArray[np.float64], list[str], NDArray[np.float64]]:
    if not (np.isfinite(rows[0]).all() and np.isfinite(rows[2]).all()):
        raise ValueError("a reading of the owners is out of all bounds")
    columns = {name: number for number, name in enumerate(sorted(set(rows[1])))}
    if len(times) * len(columns) > _MOST_CELLS:
        raise ValueError(f"{len(columns)} names in {len(times)} readings")
    table = np.full((len(times), len(columns)), missing)
    known = np.isin(rows[0], times)
    number = np.array([columns[name] for name in rows[1]], np.int64)
    table[np.searchsorted(times, rows[0][known]), number[known]] = rows[2][known]
    return times, list(columns), table


@dataclass
class _ChainTable:
    starts: NDArray[np.int64]  # by frame number
    lengths: NDArray[np.int64]
    indices: NDArray[np.int32]  # into the distinct frames

    def expand(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Indices of the frames of the numbers' chains in turn, and the length of each chain."""
        lengths = self.lengths[numbers]
        if int(lengths.sum()) > _MOST_INLINED * len(numbers) + _FEW:
            raise ValueError(f"{int(lengths.sum())} inlined functions in {len(numbers)} frames")
        if (lengths == 1).all():  # nothing is inlined, and there may be millions
            return self.indices[self.starts[numbers]], lengths
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.indices[np.repeat(self.starts[numbers], lengths) + within], lengths


def _chain_table(
    numbers: NDArray[np.int64], chains: Iterable[tuple[int, Chain]]
) -> tuple[list[Frame], _ChainTable]:
    size = int(numbers.max()) + 1 if len(numbers) else 0
    if size > _SPARSE * len(numbers) + _FEW or (len(numbers) and int(numbers.min()) < 0):
        raise ValueError(f"frame number {size - 1}")
    distinct: dict[Frame, int] = {UNNAMED: 0}
    indices: list[int] = [0]
    placed: dict[int, tuple[int, int]] = {}  # start and length
    for number, chain in chains:
        if 0 <= number < size and chain:
            placed[number] = len(indices), len(chain)
            for frame in chain:
                indices.append(distinct.setdefault(frame, len(distinct)))
    starts, lengths = np.zeros(size, np.int64), np.ones(size, np.int64)
    numbered = np.fromiter(placed, np.int64, len(placed))
    starts[numbered], lengths[numbered] = np.array(list(placed.values()), np.int64).reshape(-1, 2).T
    return list(distinct), _ChainTable(starts, lengths, np.array(indices, np.int32))


def _sorted(stacks: NumberedStacks) -> NumberedStacks:
    """By number, each number once."""
    numbers, order = np.unique(stacks.numbers, return_index=True)
    if len(numbers) and int(numbers[0]) < 0:
        raise ValueError(f"stack number {int(numbers[0])}")
    if len(numbers) == len(stacks.numbers) and (order[1:] > order[:-1]).all():
        return stacks
    starts = np.cumsum(stacks.depths) - stacks.depths
    depths = stacks.depths[order]
    within = np.arange(int(depths.sum())) - np.repeat(np.cumsum(depths) - depths, depths)
    frames = stacks.frames[np.repeat(starts[order], depths) + within]
    return NumberedStacks(numbers, stacks.kinds[order], depths, frames)
