"""`offheap nmt`: the JVM's own report word for word, External behind it, and diffs as jcmd prints them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.jvms.footprint import DIRECT, compile_footprint, footprint_jvm
from harness.jvms.java_homes import JRE_VERSIONS
from harness.paths import TESTS
from harness.plugins.rotation import one_of
from harness.simulation import Leak, Process, inflater, jvm, native
from harness.warm_command import warm
from offheap.analysis.nmt import external as nmt_external
from offheap.analysis.nmt.results import External, ExternalSite, Tracked
from offheap.inspect import nmt_report
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.texts import nmt
from offheap.jvm.texts.nmt import Category
from offheap.report.json import nmt as nmt_json
from offheap.report.json.schemas import dumps
from offheap.report.terminal.process import nmt as nmt_text

DATA = TESTS / "data" / "nmt"
JVMS = ("11-parallel", "17-serial", "21-g1", "25-z")
MIB = 1 << 20


def read(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def external(malloc: int = 1000 << 10) -> External:
    category = Category("External", malloc, malloc, malloc, 7)
    return External(category, 2 << 10, (ExternalSite(("malloc", "decode"), "malloc", malloc, 7),))


def tracked(text: str) -> Tracked:
    report = nmt.parse(text)
    assert report
    return Tracked(1, "Main", report.categories, external(), text)


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize("kind", ["summary-kb", "summary", "detail"])
@pytest.mark.parametrize("jvm", JVMS)
def test_the_jvm_s_text_stays_word_for_word(jvm: str, kind: str) -> None:
    text = read(f"{jvm}-{kind}")
    printed = lines_of(nmt_text.report(tracked(text), "KB", detail=kind == "detail"))
    at = printed.index("-                  External (reserved=1000KB, committed=1000KB)")
    assert printed[at + 1 : at + 4] == [
        " " * 28 + "(malloc=1000KB tag=External #7)",
        " " * 28 + "(beside it free and kept by malloc=2KB)",
        " " * 28 + "(beyond the Total, which is the JVM's own)",
    ]
    assert printed[:at] + printed[at + 4 :] == lines_of(text)
    # External is the last category: call sites and maps follow it.
    assert not [line for line in printed[at + 1 :] if line.startswith("- ")]


def test_a_line_of_the_jvm_s_does_not_steer_the_terminal() -> None:
    """The line contains library names, and a process that poses as a JVM controls its whole text."""
    text = read("21-g1-detail") + "\n[0x00007f0000001234]\tevil\x1b]0;owned\x07\u202e.so+0x12\r\n"
    printed = nmt_text.report(tracked(text), "KB")
    assert "[0x00007f0000001234]\tevil\\x1b]0;owned\\x07\\u202e.so+0x12" in printed
    assert not set(printed) & set("\x1b\x07\u202e\r")


def test_categories_look_as_the_newest_jvm_prints_them() -> None:
    report = nmt.parse(read("25-z-summary"))
    assert report
    golden = lines_of(read("25-z-summary-kb"))
    alike = 0
    for one in report.categories.values():
        printed = list(nmt_text.category(one, "KB"))
        if (
            one.malloc
            and not one.arena
            and not one.overhead
            and not one.mmap_reserved
            and one.name != "Class"
        ):
            # Seconds pass between the two answers: categories with equal figures must have equal text.
            at = [number for number, line in enumerate(golden) if line.startswith(printed[0][:28])]
            if at and golden[at[0]] == printed[0]:
                alike += golden[at[0] : at[0] + 2] == printed
    assert alike >= 6


@pytest.mark.parametrize("jvm", JVMS)
def test_nothing_changed(jvm: str) -> None:
    one = tracked(read(f"{jvm}-summary"))
    printed = nmt_text.diff(one, one, "KB")
    assert " +" not in printed
    assert " -" not in printed.replace("\n-", "")
    assert "Java Heap (reserved=" in printed
    assert printed.count("External") == 1


@pytest.mark.parametrize("version", one_of(JRE_VERSIONS))
def test_a_diff_is_the_jvm_s_own(version: int, jre: Callable[[int], Path], jdk: Path) -> None:
    """Categories that do not change between two questions must equal those of jcmd's summary.diff."""
    options = ("-XX:NativeMemoryTracking=summary",)
    with footprint_jvm(jre(version), compile_footprint(jdk), "serial", *options) as running:
        vm = AttachedVM(running.pid)
        vm.jcmd("VM.native_memory baseline")
        before = tracked(vm.jcmd("VM.native_memory summary scale=B"))
        # These commands change further categories: code heaps, threads' arenas.
        vm.jcmd("Thread.print")
        vm.jcmd("GC.run")
        after = tracked(vm.jcmd("VM.native_memory summary scale=B"))
        golden = lines_of(vm.jcmd("VM.native_memory summary.diff scale=KB"))
    printed = lines_of(nmt_text.diff(before, after, "KB"))
    compared = 0
    for name in ("Java Heap", "Other", "Module", "Safepoint", "Arguments", "Symbol"):
        head = [line for line in golden if line.startswith("-") and f" {name} (" in line]
        if head and before.categories[name] == after.categories[name]:
            at = printed.index(head[0])
            assert printed[at] == head[0]
            first = golden.index(head[0]) + 1
            kinds = [line.replace(f" tag={name}", "").replace(f" type={name}", "") for line in golden]
            assert printed[at + 1] == kinds[first]
            compared += 1
    assert compared >= 3


def test_changes_have_their_sign() -> None:
    old = tracked(read("17-serial-summary"))
    other = old.categories["Other"]
    new = replace(
        old,
        categories={
            **old.categories,
            "Other": replace(
                other,
                malloc=other.malloc + 4096,
                malloc_count=other.malloc_count + 1,
                reserved=other.reserved + 4096,
                committed=other.committed + 4096,
            ),
        },
        external=external(500 << 10),
    )
    printed = nmt_text.diff(old, new, "KB")
    assert (
        "(reserved=24580KB +4KB, committed=24580KB +4KB)\n" + " " * 28 + "(malloc=24580KB +4KB #25 +1)"
        in printed
    )
    assert "External (reserved=500KB -500KB, committed=500KB -500KB)" in printed
    assert "(malloc=512000 -512000 #7)" in nmt_text.diff(old, new, "B")


@given(st.integers(0, 1 << 50), st.sampled_from(["B", "KB", "MB", "GB"]))
def test_amounts_are_rounded_to_the_nearest(size: int, scale: str) -> None:
    written = nmt_text.amount(size, scale)
    number = int(written.removesuffix(scale)) * nmt_text.UNITS[scale]
    assert abs(number - size) * 2 <= nmt_text.UNITS[scale]


@pytest.mark.parametrize("jvm", JVMS)
def test_what_is_kept_reads_back(jvm: str) -> None:
    one = tracked(read(f"{jvm}-summary"))
    again = nmt_report.parse(dumps(nmt_json.nmt(one)))
    assert again
    assert again.categories == one.categories
    assert again.external.category == one.external.category


@given(st.text(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_a_baseline_of_any_content(content: str) -> None:
    nmt_report.parse(content)
    nmt_report.parse('{"schema": "offheap.nmt/1", "categories": ' + content)


def test_a_recording() -> None:
    process = Process(duration=5, seed=2)
    leak = process.add(inflater("com.example.A.a", "com.example.Main.main"), Leak(100, 10_000))
    process.add((native("malloc"), jvm("os::malloc"), jvm("SymbolTable::new")), Leak(300, 10_000))
    found = nmt_external.of_recording(process.record(exact=True))
    blocks, size = process.truth(leak)
    assert (found.category.malloc, found.category.malloc_count) == (size, blocks)
    assert found.category.malloc_peak == size
    assert [site.bytes for site in found.sites] == [size]
    printed = nmt_text.report(Tracked(1, "Main", {}, found), "B", detail=True)
    assert f"Total: reserved={size:.0f}, committed={size:.0f}" in printed
    assert "[com.example.A.a]" in printed
    assert f"(malloc={size:.0f} tag=External #{blocks})" in printed
    assert "SymbolTable" not in printed


def offheap_nmt(*arguments: object, status: int = 0) -> str:
    outcome = warm("nmt", *map(str, arguments))
    assert outcome.returncode == status, outcome.stderr
    return outcome.stderr if status else outcome.stdout


@needs.tracing
def test_the_command(jre: Callable[[int], Path], jdk: Path, tmp_path: Path) -> None:
    options = ("-XX:NativeMemoryTracking=summary",)
    with footprint_jvm(jre(17), compile_footprint(jdk), "serial", *options) as running:
        kept = tmp_path / "before.json"
        document = json.loads(offheap_nmt(running.pid, "--json", "-o", kept))
        assert document["schema"] == "offheap.nmt/1"
        other = next(one for one in document["categories"] if one["name"] == "Other")
        assert other["malloc_bytes"] == DIRECT
        # 60 deflate streams: four tables of 64 KiB each, and the state.
        assert 15 * MIB < document["external"]["malloc_bytes"] < 20 * MIB
        printed = offheap_nmt(running.pid, "--diff", kept, "--scale", "MB")
        assert "Java Heap (reserved=192MB, committed=192MB)" in printed
        assert "External (reserved=16MB, committed=16MB)" in printed
        assert "has no details" in offheap_nmt(running.pid, "--detail", status=2)
        assert "is not a report" in offheap_nmt(running.pid, "--diff", __file__, status=2)
        assert "cannot read" in offheap_nmt(running.pid, "--diff", tmp_path / "none", status=2)
        assert "none of B, KB" in offheap_nmt(running.pid, "--scale", "parsec", status=2)
        assert running.answers()
    with footprint_jvm(jre(17), compile_footprint(jdk), "serial") as running:
        line = offheap_nmt(running.pid, status=2)
        assert line.count("\n") == 1
        assert "is off" in line
        assert "-XX:NativeMemoryTracking=summary" in line
