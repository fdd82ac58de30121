"""HotSpot's exports for debuggers, followed from outside, against the JVM's own answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.jvms import zoo as zoo_programs
from harness.jvms.footprint import compile_footprint, footprint_jvm
from harness.jvms.zoo import Running, Zoo
from harness.plugins.rotation import one_a_row
from offheap.inspect.process import inspect_process
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.structures import vm_places
from offheap.jvm.texts import nmt, vm_info
from offheap.proc import maps


def borders(places: list[vm_info.JVMRange], part: str) -> list[tuple[int, int]]:
    return sorted((place.start, place.end) for place in places if place.part == part)


@needs.tracing
@pytest.mark.parametrize(
    ("version", "collector"), one_a_row((11, 17, 21, 25), ("parallel", "g1", "serial", "z"))
)
def test_the_places_are_those_the_jvm_tells(
    version: int, collector: str, jre: Callable[[int], Path], jdk: Path
) -> None:
    tracked = "-XX:NativeMemoryTracking=detail"
    with footprint_jvm(jre(version), compile_footprint(jdk), collector, tracked) as jvm:
        found = vm_places.places(jvm.pid, maps.read(jvm.pid))
        vm = AttachedVM(jvm.pid)
        told = vm_info.places(vm.jcmd("GC.heap_info") + "\n" + vm.jcmd("Compiler.codecache"))
        code = [place for place in found if place.part == "code"]
        assert borders([place for place in code if "map" not in place.name], "code") == borders(told, "code")
        report = nmt.parse(vm.jcmd("VM.native_memory detail scale=B"))
        assert report
        regions = {(region.start, region.end): region.category for region in report.regions}
        assert {regions.get((place.start, place.end)) for place in code if "map" in place.name} == {"Code"}
        if version == 11:
            nodes = borders(found, "metaspace") + borders(found, "class space")
            assert nodes
            classes = [border for border, category in regions.items() if category == "Class"]
            assert set(nodes) <= set(classes)
            assert all(any(low <= start < end <= high for low, high in nodes) for start, end in classes)
        if collector == "z":
            return  # ZGC's heap is known by the name of its file
        ((start, end),) = borders(found, "heap")
        assert end - start == 192 << 20
        assert all(start <= place.start < place.end <= end for place in told if place.part == "heap")
        tables = borders(found, "gc")
        assert set(tables) <= {
            border for border, category in regions.items() if category in ("GC", "Card table", "GCCardSet")
        }
        # G1 has card counts before JDK 20, and a second bitmap; Parallel block offsets before JDK 22.
        counts = {"serial": 1, "g1": 5 if version < 20 else 3, "parallel": 4 if version < 22 else 3}
        assert len(tables) == counts[collector]


@needs.tracing
def test_many_nodes_of_metaspace(jre: Callable[[int], Path], zoo: Zoo) -> None:
    """Class loaders that stay make JDK 11 reserve node after node, which looks like any anonymous memory."""
    command = zoo.command(zoo_programs.programs()["class-loaders"], jre(11))
    with Running(command) as running:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            nodes = borders(vm_places.places(running.pid, maps.read(running.pid)), "metaspace")
            if len(nodes) > 2:
                break
            time.sleep(0.2)
        assert len(nodes) > 2
        accounts = inspect_process(running.pid)
        owners = {holding.owner: holding.bytes for holding in accounts.holdings}
        usage = vm_info.metaspace_usage(AttachedVM(running.pid).jcmd("GC.heap_info"))
        assert usage
        assert owners["metaspace"] == pytest.approx(usage.non_class.committed, rel=0.05)
        assert accounts.unattributed_bytes <= 0.005 * accounts.memory.rss, accounts.unattributed
        # The same without a question to the JVM.
        quiet = {
            holding.owner: holding.bytes for holding in inspect_process(running.pid, attach=False).holdings
        }
        assert quiet["metaspace"] >= owners["metaspace"]


def test_no_jvm() -> None:
    assert vm_places.places(os.getpid(), maps.read(os.getpid())) == []
