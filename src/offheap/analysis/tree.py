"""Live bytes as a tree of callers: the outermost at the root, Java and native frames in one chain."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from offheap.analysis import estimates, frames, totals
from offheap.analysis.estimates import Parts
from offheap.analysis.results import Estimate, Live
from offheap.recording.model import Frame, Info, Recording


@dataclass(frozen=True, slots=True)
class Node:
    """A function and what it, or what it called, holds; `share` (0..1) of all live bytes.

    `children` have at least the least share, most bytes first; what the others hold is the
    difference to this node's own.
    """

    frame: Frame
    live_bytes: Estimate
    live_blocks: float
    share: float
    children: tuple[Node, ...]


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
        _add(node, parts[stack], blocks[stack])
    whole = totals.live(recording)[0]
    return Tree(
        info=recording.info,
        live_bytes=whole,
        live=totals.live_by_kind(recording),
        roots=_finish(root, least_share * whole.estimate, whole.estimate),
        least_share=least_share,
    )


def _add(node: _Growing, parts: Parts, blocks: float) -> None:
    node.parts = node.parts.with_(parts)
    node.blocks += blocks


def _finish(root: _Growing, least: float, whole: float) -> tuple[Node, ...]:
    """The nodes of at least `least` bytes, as values.  No recursion: stacks may be 2,000 deep."""
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
            _add(node, child.parts, child.blocks)
        kept = [done[id(child)] for child in node.children.values() if id(child) in done]
        children = tuple(sorted(kept, key=lambda child: -child.live_bytes.estimate))
        weight = node.parts.seen + node.parts.unseen
        if weight >= least and node is not root:
            done[id(node)] = Node(
                frame=node.frame,
                live_bytes=node.parts.estimate(),
                live_blocks=node.blocks,
                share=weight / whole if whole else 0.0,
                children=children,
            )
    return children
