"""Addresses in the answers of real JVMs: heap, code, class space, the collector's tables, tagged mappings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.paths import TESTS
from offheap.jvm.texts import system_map, vm_info
from offheap.jvm.texts.vm_info import JVMRange, Usage

DATA = TESTS / "data" / "vm"
KIB, MIB = 1 << 10, 1 << 20
HEAP = (0xF4000000, 0x100000000)


def read(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


@pytest.mark.parametrize("jvm", ["11-parallel", "17-serial", "21-g1"])
@pytest.mark.parametrize("command", ["GC.heap_info", "VM.info"])
def test_generations_cover_the_heap(jvm: str, command: str) -> None:
    places = [place for place in vm_info.places(read(f"{jvm}-{command}")) if place.part == "heap"]
    assert min(place.start for place in places) == HEAP[0]
    assert max(place.end for place in places) == HEAP[1]
    generations = [place for place in places if place.name != "heap"]
    assert sum(place.end - place.start for place in generations) == HEAP[1] - HEAP[0]


def test_zgc_tells_no_address() -> None:
    assert vm_info.places(read("25-z-GC.heap_info")) == []


@pytest.mark.parametrize("jvm", ["11-parallel", "17-serial", "21-g1", "25-z"])
@pytest.mark.parametrize("command", ["Compiler.codecache", "VM.info"])
def test_code_heaps(jvm: str, command: str) -> None:
    places = [place for place in vm_info.places(read(f"{jvm}-{command}")) if place.part == "code"]
    assert {place.name for place in places} == {
        "non-profiled nmethods",
        "profiled nmethods",
        "non-nmethods",
    }
    assert sum(place.end - place.start for place in places) == 240 * MIB


def test_one_code_cache_for_all() -> None:
    text = (
        "CodeCache: size=49152Kb used=1Kb max_used=1Kb free=1Kb\n"
        " bounds [0x00007f0001000000, 0x00007f0001270000, 0x00007f0004000000]"
    )
    assert vm_info.places(text) == [JVMRange(0x7F0001000000, 0x7F0004000000, "code", "code cache")]


@pytest.mark.parametrize(
    "name",
    ["11-parallel-VM.info", "17-serial-VM.info", "21-g1-VM.info", "25-z-VM.info", "25-z-VM.metaspace-basic"],
)
def test_class_space(name: str) -> None:
    (place,) = [place for place in vm_info.places(read(name)) if place.part == "class space"]
    assert place.end - place.start == 1024 * MIB


@pytest.mark.parametrize(
    ("jvm", "sizes"),
    [
        ("11-parallel", {"card table": [388], "mark bitmap": [3072, 3072]}),
        ("17-serial", {"card table": [388]}),
        ("21-g1", {"card table": [384], "mark bitmap": [3072]}),
        ("25-z", {}),
    ],
)
def test_tables_of_the_collector(jvm: str, sizes: dict[str, list[int]]) -> None:
    found: dict[str, list[int]] = {}
    for place in vm_info.places(read(f"{jvm}-VM.info")):
        if place.part == "gc":
            found.setdefault(place.name, []).append((place.end - place.start) // KIB)
    assert found == sizes


def test_cds_archives() -> None:
    text = (
        "CDS archive(s) mapped at: [0x00007fff00000000-0x00007fff00be0000-0x00007fff00be0000), "
        "size 12451840, SharedBaseAddress: 0x00007fff00000000, ArchiveRelocationMode: 1."
    )
    assert vm_info.places(text) == [JVMRange(0x7FFF00000000, 0x7FFF00BE0000, "cds", "CDS archives")]


@pytest.mark.parametrize(
    "name",
    ["11-parallel-GC.heap_info", "17-serial-GC.heap_info", "21-g1-GC.heap_info", "25-z-VM.metaspace-basic"],
)
def test_metaspace_usage(name: str) -> None:
    usage = vm_info.metaspace_usage(read(name))
    assert usage
    assert usage.class_space
    assert usage.class_space.reserved == 1024 * MIB
    assert 500 * KIB < usage.class_space.used < usage.class_space.committed < 2 * MIB
    assert usage.non_class.reserved in (8 * MIB, 64 * MIB)
    assert 4 * MIB < usage.non_class.used < usage.non_class.committed < 8 * MIB


def test_no_class_space() -> None:
    usage = vm_info.metaspace_usage(" Metaspace       used 5K, capacity 7K, committed 8K, reserved 16K\n")
    assert usage
    assert usage.class_space is None
    assert usage.non_class == Usage(5 * KIB, 8 * KIB, 16 * KIB)
    assert vm_info.metaspace_usage(read("11-parallel-Compiler.codecache")) is None


@pytest.mark.parametrize("jvm", ["21-g1", "25-z"])
def test_tagged_mappings(jvm: str) -> None:
    mappings = system_map.parse(read(f"{jvm}-System.map"))
    tags = {tag.split("-")[0] for mapping in mappings for tag in mapping.tags}
    assert {"JAVAHEAP", "META", "CLASS", "CODE", "GC", "STACK"} <= tags
    stacks = {tag.split("-", 2)[2] for m in mappings for tag in m.tags if tag.startswith("STACK-")}
    assert {f"worker-{number}" for number in range(12)} <= stacks
    assert all(mapping.rss <= mapping.end - mapping.start for mapping in mappings)
    assert not any(mapping.file.endswith(".so") for mapping in mappings)


def test_neighbours_merged_by_the_kernel_have_several_tags() -> None:
    merged = [mapping for mapping in system_map.parse(read("21-g1-System.map")) if len(mapping.tags) > 1]
    assert ("JAVAHEAP", "CLASS") in {mapping.tags for mapping in merged}


def test_no_tags_without_tracking() -> None:
    line = (
        "0x0000000044000000-0x0000000044080000       524288 rw-p       524288            0 4K   com"
        "              -                                     -"
    )
    assert system_map.parse(line) == []
    assert system_map.parse("java.lang.IllegalArgumentException: Unknown diagnostic command") == []


LINES = [
    line
    for path in sorted(DATA.glob("*.txt"))
    for line in path.read_text().split("\n")
    if "0x" in line or "K" in line
]


@given(st.sampled_from(LINES), st.integers(0, 150), st.text("0x9afK[,) -", max_size=8))
def test_a_damaged_line(line: str, at: int, junk: str) -> None:
    text = line[:at] + junk + line[at + len(junk) :]
    assert all(0 < place.start < place.end for place in vm_info.places(text))
    vm_info.metaspace_usage(text)
    assert all(mapping.start < mapping.end for mapping in system_map.parse(text))


@given(st.text())
def test_any_text(text: str) -> None:
    vm_info.places(text)
    vm_info.metaspace_usage(text)
    system_map.parse(text)
