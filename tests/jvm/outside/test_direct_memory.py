"""The JDK's counters of direct buffers, read from outside, against the buffers of a real JVM."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.footprint import COLLECTORS, DIRECT, compile_footprint, footprint_jvm
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import waiting_jvm
from harness.plugins.rotation import one_a_row
from offheap.inspect.process import inspect_process
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.structures import direct_memory
from offheap.jvm.structures.direct_memory import DirectMemory
from offheap.jvm.structures.java_statics import _unsigned5
from offheap.proc import maps

pytestmark = needs.tracing
HELD = DirectMemory(DIRECT, DIRECT, DIRECT >> 20)


@pytest.mark.parametrize(("version", "collector"), one_a_row(JRE_VERSIONS, COLLECTORS))
def test_what_a_jvm_holds(version: int, collector: str, jre: Callable[[int], Path], jdk: Path) -> None:
    with footprint_jvm(jre(version), compile_footprint(jdk), collector) as jvm:
        deadline = time.monotonic() + 20
        while collector == "z" and direct_memory.read(jvm.pid, maps.read(jvm.pid)) is None:
            # ZGC has moved the counters, and no reference to them is loaded since: marking loads one.
            assert time.monotonic() < deadline
            AttachedVM(jvm.pid).jcmd("GC.run")
        assert direct_memory.read(jvm.pid, maps.read(jvm.pid)) == HELD
        AttachedVM(jvm.pid).jcmd("GC.run")  # which moves the counters
        assert direct_memory.read(jvm.pid, maps.read(jvm.pid)) == HELD
        owners = {holding.owner: holding for holding in inspect_process(jvm.pid).holdings}
        assert owners["direct-buffers"].bytes == DIRECT
        assert owners["direct-buffers"].counted
        assert jvm.answers()


@pytest.mark.parametrize(
    "options",
    [
        ("-XX:-UseCompressedOops",),
        ("-XX:-UseCompressedOops", "-XX:-UseCompressedClassPointers"),
        ("-XX:ObjectAlignmentInBytes=16",),
        ("-XX:+PageAlignDirectMemory",),
    ],
)
def test_other_layouts(options: tuple[str, ...], jre: Callable[[int], Path], jdk: Path) -> None:
    with footprint_jvm(
        jre(21), compile_footprint(jdk), "g1", "-XX:+IgnoreUnrecognizedVMOptions", *options
    ) as jvm:
        found = direct_memory.read(jvm.pid, maps.read(jvm.pid))
        assert found
        assert (found.capacity, found.count) == (HELD.capacity, HELD.count)


def test_compact_headers(jre: Callable[[int], Path], jdk: Path) -> None:
    with footprint_jvm(jre(25), compile_footprint(jdk), "g1", "-XX:+UseCompactObjectHeaders") as jvm:
        assert direct_memory.read(jvm.pid, maps.read(jvm.pid)) == HELD


def test_no_buffers(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        found = direct_memory.read(jvm.pid, maps.read(jvm.pid))
        assert found is not None
        assert found.count <= 2
        assert jvm.answers()


def test_unsigned5() -> None:
    # src/hotspot/share/utilities/unsigned5.hpp: 1 to 191 are one byte, then two.
    assert list(_unsigned5(bytes([1, 2, 191]))) == [0, 1, 190]
    assert list(_unsigned5(bytes([192, 1, 192, 2, 255, 255, 255, 255, 255]))) == [
        191,
        255,
        sum(254 << 6 * k for k in range(5)),
    ]
