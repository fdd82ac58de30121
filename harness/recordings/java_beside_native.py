"""Native memory and a Java heap, simulated apart, as one recording."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.simulation import Churn, Leak, Process, inflater
from harness.simulation.java_heap import JavaProcess, every, object_stack
from offheap.recording.model import Recording


def beside(native: Recording, heap: Recording) -> Recording:
    """The Java objects of `heap` after the stacks, frames and threads of `native`, of the same length."""
    assert heap.java
    stacks, frames, threads = len(native.stack_kinds) - 1, len(native.frames), len(native.threads)

    def renumbered(rows: NDArray[Any]) -> NDArray[Any]:
        moved: NDArray[Any] = rows.copy()
        moved["stack"] += stacks
        if "thread" in (rows.dtype.names or ()):
            moved["thread"] += threads
        return moved

    ends = native.stack_offsets[-1]
    both = replace(
        native,
        info=replace(native.info, java_heap=heap.info.java_heap, java_version="21.0.8"),
        frames=[*native.frames, *heap.frames],
        stack_frames=np.concatenate((native.stack_frames, heap.stack_frames + frames)),
        stack_offsets=np.concatenate((native.stack_offsets, heap.stack_offsets[2:] + ends)),
        stack_kinds=np.concatenate((native.stack_kinds, heap.stack_kinds[1:])),
        threads=[*native.threads, *heap.threads],
        heap=heap.heap,
        collections=heap.java.collections,
    )
    objects = replace(
        both,
        info=heap.java.info,
        live=renumbered(heap.java.live),
        series=renumbered(heap.java.series),
        process=heap.java.process,
    )
    return replace(both, java=objects)


def shop(native_leak: bool = True, java_leak: bool = True, duration: float = 120.0) -> Recording:
    """A shop that leaks carts on the Java heap, or inflaters in native memory, or both, or neither."""
    process = Process(duration, 1)
    if native_leak:
        process.add(inflater("com.example.Images.decode", "com.example.Main.main"), Leak(20, 40_000))
    process.add(inflater("com.example.Images.zip", "com.example.Main.main"), Churn(300, 7160, 0.5))
    collections = [*every(2.0, "young", duration), *every(10.0, "full", duration, 9.5)]
    heap = JavaProcess(duration, 3, collections, older=4e6)
    if java_leak:
        carts = object_stack("byte[]", "com.example.Cart.<init>", "com.example.Carts.open")
        heap.add(carts, Leak(30, 40_000))
    heap.add(object_stack("java.lang.String", "com.example.Feed.read"), Churn(900, 7160, 3.0))
    heap.add(object_stack("com.example.Order", "com.example.Orders.take"), Churn(400, 240, 6.0))
    return beside(process.record(), heap.record(interval=64 * 1024, age=duration))
