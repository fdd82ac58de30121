"""What HotSpot exports for debuggers, followed from outside, against what the JVM says when it is asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from footprint import compile_footprint, footprint_jvm
from offheap.jvm import vm_info, vm_structs
from offheap.jvm.attach import AttachedVM
from offheap.proc import maps, threads

needs_tracing = pytest.mark.skipif(
    not threads.may_see_stacks(os.getppid()),
    reason="this user may not trace another process: run as root, or set kernel.yama.ptrace_scope to 0",
)


@needs_tracing
@pytest.mark.parametrize("collector", ["parallel", "g1", "z"])
@pytest.mark.parametrize("version", [11, 17, 21, 25])
def test_the_places_are_those_the_jvm_tells(
    version: int, collector: str, jre: Callable[[int], Path], jdk: Path
) -> None:
    with footprint_jvm(jre(version), compile_footprint(jdk), collector) as jvm:
        found = vm_structs.places(jvm.pid, maps.read(jvm.pid))
        vm = AttachedVM(jvm.pid)
        told = vm_info.places(vm.jcmd("GC.heap_info") + "\n" + vm.jcmd("Compiler.codecache"))
        parts = {
            part: sorted((place.start, place.end) for place in found if place.part == part)
            for part in ("heap", "code", "gc")
        }
        assert parts["code"] == sorted((place.start, place.end) for place in told if place.part == "code")
        if collector == "z":
            return  # its heap is told by the name of its file
        ((start, end),) = parts["heap"]
        assert end - start == 192 << 20
        assert all(start <= place.start < place.end <= end for place in told if place.part == "heap")
        ((start, end),) = parts["gc"]
        assert end - start == pytest.approx((192 << 20) / 512, rel=0.03)  # one card for 512 bytes


def test_no_jvm() -> None:
    assert vm_structs.places(os.getpid(), maps.read(os.getpid())) == []
