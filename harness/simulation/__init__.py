"""A bench for analysis: processes of known behaviour, sampled as the probe samples, as Recordings.

process = Process(duration=20, seed=1)
stack = process.add(inflater("com.example.Foo.bar"), Leak(rate=200, size=7160))
recording = process.record()             # sampled at 512 KiB; record(exact=True), record(snapshots=1)
process.truth(stack)                     # live blocks and bytes as they are
"""

from __future__ import annotations

from harness.simulation.behaviours import (
    Behaviour,
    Blocks,
    Born,
    Cache,
    Churn,
    Floats,
    Flow,
    Generations,
    JustInTime,
    Leak,
    Owned,
    Sawtooth,
    UnevenLeak,
    WarmUp,
    arrivals,
)
from harness.simulation.java_heap import JavaProcess, every, object_stack
from harness.simulation.process import INTERVAL, Process
from harness.simulation.stacks import MALLOC, compiler, inflater, java, jvm, library, native, native_stack
from harness.simulation.tables import build, large

__all__ = [
    "INTERVAL",
    "MALLOC",
    "Behaviour",
    "Blocks",
    "Born",
    "Cache",
    "Churn",
    "Floats",
    "Flow",
    "Generations",
    "JavaProcess",
    "JustInTime",
    "Leak",
    "Owned",
    "Process",
    "Sawtooth",
    "UnevenLeak",
    "WarmUp",
    "arrivals",
    "build",
    "compiler",
    "every",
    "inflater",
    "java",
    "jvm",
    "large",
    "library",
    "native",
    "native_stack",
    "object_stack",
]
