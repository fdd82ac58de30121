"""Native Memory Tracking's text of every JDK in the matrix; the samples are real JVMs' answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.paths import TESTS
from offheap.jvm.texts import nmt

DATA = TESTS / "data" / "nmt"
JVMS = ("11-parallel", "17-serial", "21-g1", "25-z")
DIRECT_BYTES = 24 << 20  # direct buffers of the sample program


def read(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def report(name: str) -> nmt.Report:
    found = nmt.parse(read(name))
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["summary", "detail"])
@pytest.mark.parametrize("jvm", JVMS)
def test_the_report_adds_up(jvm: str, kind: str) -> None:
    found = report(f"{jvm}-{kind}")
    categories = found.categories.values()
    assert found.unit == 1
    assert len(categories) >= 15
    assert sum(c.committed for c in categories) == found.committed
    assert sum(c.reserved for c in categories) == found.reserved
    for category in categories:
        handed_out = category.malloc + category.arena + category.overhead
        assert handed_out + category.mmap_committed == category.committed, category


@pytest.mark.parametrize("jvm", JVMS)
def test_what_the_program_holds(jvm: str) -> None:
    found = report(f"{jvm}-summary")
    assert found.categories["Other"].malloc == DIRECT_BYTES
    assert found.categories["Other"].malloc_count == 24
    assert found.categories["Class"].malloc_count > 1000
    assert found.classes > 900
    assert 20 <= found.threads <= 60
    assert found.categories["Java Heap"].mmap_committed == 192 << 20
    assert not found.regions


@pytest.mark.parametrize("jvm", JVMS)
def test_kilobytes_say_that_they_are_rounded(jvm: str) -> None:
    found, exact = report(f"{jvm}-summary-kb"), report(f"{jvm}-summary")
    assert found.unit == 1024
    assert found.categories["Other"].malloc == DIRECT_BYTES
    assert set(found.categories) >= {name for name, c in exact.categories.items() if c.reserved >= 1024}


@pytest.mark.parametrize("jvm", JVMS)
def test_a_diff_reads_as_what_is_now(jvm: str) -> None:
    found = report(f"{jvm}-diff")
    assert found.committed >> 20 in range(100, 300)
    assert found.categories["Other"].malloc == DIRECT_BYTES
    assert found.categories["Other"].malloc_count == 24


@pytest.mark.parametrize("jvm", JVMS)
def test_regions(jvm: str) -> None:
    regions = report(f"{jvm}-detail").regions
    names = {region.category for region in regions}
    assert {"Java Heap", "Code", "Thread Stack", "GC"} <= names
    assert all(0x1000 <= region.start < region.end for region in regions)
    code = [region for region in regions if region.category == "Code" and not region.committed]
    assert max(region.end - region.start for region in code) == 240 << 20
    stacks = [r for r in regions if r.category == "Thread Stack" and (r.end - r.start) == 1 << 20]
    assert len(stacks) >= 20


@pytest.mark.parametrize(
    "answer",
    [
        "Native memory tracking is not enabled\n",
        "Native memory tracking has been shutdown\n",
        "Detail tracking is not enabled\n",
        "No baseline for comparison",
        "",
    ],
)
def test_a_refusal_is_no_report(answer: str) -> None:
    assert nmt.parse(answer) is None


LINES = [line for jvm in JVMS for line in read(f"{jvm}-detail").split("\n")]


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=40), max_size=60))
def test_any_lines_in_any_order(lines: list[str]) -> None:
    nmt.parse("\n".join(["Total: reserved=1, committed=1", *lines]))


@given(st.sampled_from(LINES), st.integers(0, 120), st.text(max_size=6))
def test_a_damaged_line(line: str, at: int, junk: str) -> None:
    nmt.parse(f"Total: reserved=1, committed=1\n{line[:at]}{junk}{line[at:]}")


@given(st.text())
def test_any_text(text: str) -> None:
    nmt.parse(text)
