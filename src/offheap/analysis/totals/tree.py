"""Live bytes as a tree of callers: the outermost at the root, Java and native frames in one chain."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from offheap.analysis.sites.results import Live
from offheap.analysis.stacks import frames
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Parts
from offheap.analysis.totals import totals
from offheap.analysis.totals.summary import share_of
from offheap.recording.model import MMAP, Frame, Info, Recording


@dataclass(frozen=True, slots=True)
class Node:
    """A function and what it, or what it called, holds, of which `mapped_bytes` are mappings.

    `share` (0..1) is of malloc's live bytes; of what is mapped where it holds mappings alone.
    `children` have at least the least share, most bytes first; what the others hold is the
    difference to this node's own.
    """

    frame: Frame
    live_bytes: Estimate
    live_blocks: float
    share: float
    children: tuple[Node, ...]
    mapped_bytes: float = 0.0

    @property
    def malloc_bytes(self) -> float:
        """Less than a byte is what sums of floating numbers leave."""
        rest = self.live_bytes.estimate - self.mapped_bytes
        return rest if rest >= 1 else 0.0


@dataclass(frozen=True, slots=True)
class Tree:
    """`roots`: the outermost callers, most bytes first."""

    info: Info
    live_bytes: Estimate
    live: Live
    roots: tuple[Node, ...]
    least_share: float


@dataclass(slots=True)
class _Growing:
    """A node while stacks are still being added: the sampled blocks of stacks that end here."""

    frame: Frame
    parts: Parts = field(default_factory=Parts)
    blocks: float = 0.0
    mapped: float = 0.0
    children: dict[tuple[str, str], _Growing] = field(default_factory=dict)


def tree(recording: Recording, least_share: float = 0.01) -> Tree:
    """The call tree of what is live; functions below `least_share` of it are left out.

    Calls from several lines of one function are one node: its frame's line is that of the first.
    """
    live = recording.live
    size = live["size"].astype(np.float64)
    stacks = len(recording.stack_offsets) - 1
    parts = estimates.parts_of_groups(live["stack"], size, live["probability"], stacks)
    blocks = np.bincount(live["stack"], 1 / live["probability"], minlength=stacks).tolist()
    names = [(frames.stable_name(frame), frame.module) for frame in recording.frames]
    indices = recording.stack_frames.tolist()
    offsets = recording.stack_offsets.tolist()
    root = _Growing(Frame("", "unknown"))
    for stack in np.unique(live["stack"]).tolist():
        own = indices[offsets[stack] : offsets[stack + 1]]
        node = root
        for index in reversed(own):
            child = node.children.get(names[index])
            if child is None:
                child = node.children[names[index]] = _Growing(recording.frames[index])
            node = child
        if not own:
            node = root.children.setdefault(("", ""), _Growing(Frame("no stack", "unknown")))
        mapped = parts[stack].seen + parts[stack].unseen if recording.stack_kinds[stack] == MMAP else 0.0
        _add(node, parts[stack], blocks[stack], mapped)
    by_kind = totals.live_by_kind(recording)
    return Tree(
        info=recording.info,
        live_bytes=totals.live(recording)[0],
        live=by_kind,
        roots=_finish(root, least_share, by_kind, recording.info.weight_error),
        least_share=least_share,
    )


def _add(node: _Growing, parts: Parts, blocks: float, mapped: float) -> None:
    node.parts = node.parts.with_(parts)
    node.blocks += blocks
    node.mapped += mapped


def _finish(root: _Growing, least: float, whole: Live, error: float) -> tuple[Node, ...]:
    """The nodes with a share of `least` or more, as values.  No recursion: stacks may be 2,000 deep."""
    order: list[_Growing] = []
    pending = [root]
    while pending:
        node = pending.pop()
        order.append(node)
        pending += node.children.values()
    done: dict[int, Node] = {}
    children: tuple[Node, ...] = ()
    for node in reversed(order):  # children before their parents
        for child in node.children.values():
            _add(node, child.parts, child.blocks, child.mapped)
        kept = [done[id(child)] for child in node.children.values() if id(child) in done]
        children = tuple(sorted(kept, key=lambda child: (-child.malloc_bytes, -child.mapped_bytes)))
        in_malloc = node.parts.seen + node.parts.unseen - node.mapped
        shares = share_of(in_malloc, whole.malloc_bytes), share_of(node.mapped, whole.mapped_bytes)
        if max(shares) >= least and node is not root:
            done[id(node)] = Node(
                frame=node.frame,
                live_bytes=node.parts.estimate(error),
                live_blocks=node.blocks,
                share=shares[0] if in_malloc >= 1 else shares[1],
                children=children,
                mapped_bytes=node.mapped,
            )
    return children
