"""Reports that tools wrote for people: massif, Memcheck, LeakSanitizer, Native Memory Tracking."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.recordings.imported_profiles import SAMPLES, check, held_by, stacks_of
from offheap.errors import UserError
from offheap.formats.imported.reports import (
    loss_records,
    malloc_trace,
    massif,
    memcheck,
    native_memory_tracking,
    sanitizer,
    valgrind_frames,
)
from offheap.recording.model import MMAP, Frame


def test_massif_over_time() -> None:
    profile = check(massif.read([SAMPLES / "massif.out"]))
    blocks, size = held_by(profile, "keep_one")
    assert blocks == 1
    assert size >= 90_000
    ((number, frames),) = stacks_of(profile, "keep_one")
    assert [frame.name for frame in frames] == ["keep_one", "main"]
    rows = profile.series[profile.series["stack"] == number]
    assert len(rows) >= 5
    assert profile.process["time"][-1] > 1.5
    assert profile.program.endswith("growing")


@pytest.mark.parametrize("sample", ["memcheck.txt", "memcheck.xml"])
def test_memcheck(sample: str) -> None:
    """GIVEN 20 blocks and a chain that are lost THEN text and XML say the same, by kind of loss."""
    profile = check(memcheck.read([SAMPLES / sample]))
    assert held_by(profile, "make_block") == (20, 2190)
    assert held_by(profile, "chain") == (5, 560)
    assert held_by(profile, "indirectly lost") == (4, 448)
    assert held_by(profile, "definitely lost") == (21, 2302)
    (_, frames), *_ = stacks_of(profile, "make_block")
    assert [frame.name for frame in frames] == ["malloc", "make_block", "lose", "main", "definitely lost"]
    assert frames[1].line == 5
    assert profile.pid > 0
    assert memcheck.NO_REACHABLE in profile.lacks


def test_memcheck_without_records_of_indirect_blocks(tmp_path: Path) -> None:
    """Then what a lost block points to counts with it, or it would be nowhere."""
    path = tmp_path / "log"
    text = (SAMPLES / "memcheck.txt").read_text()
    start = text.index(" 448 bytes in 4 blocks are indirectly")
    path.write_text(text[: text.rindex("\n", 0, start)] + text[text.index("\n", start) :])
    assert held_by(check(memcheck.read([path])), "chain") == (1, 560)


def test_memcheck_without_a_leak_report(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("==7== Memcheck, a memory error detector\n==7== Command: java\n")
    with pytest.raises(UserError, match="line 3: the log ends without a leak report"):
        memcheck.read([path])


def test_xml_with_a_document_type_is_refused(tmp_path: Path) -> None:
    """Entities that multiply each other need one."""
    path = tmp_path / "x.xml"
    path.write_text(
        '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY x "yyyy">]>\n'
        "<valgrindoutput>memcheck &x;</valgrindoutput>"
    )
    with pytest.raises(UserError, match=r"line 2: declares a document type"):
        memcheck.read([path])


@pytest.mark.parametrize("sample", ["asan.txt", "lsan.txt"])
def test_sanitizers(sample: str) -> None:
    profile = check(sanitizer.read([SAMPLES / sample]))
    assert held_by(profile, "make_block") == (20, 2190)
    if sample == "asan.txt":  # in the other run an old pointer to the chain was left on the stack
        assert held_by(profile, "chain") == (5, 560)
        assert held_by(profile, "indirectly lost") == (4, 448)
    (_, frames), *_ = stacks_of(profile, "make_block")
    assert [frame.name for frame in frames[1:4]] == ["make_block", "lose", "main"]
    assert (frames[1].file.rpartition("/")[2], frames[1].line) == ("lost_blocks.c", 5)


def test_frames_of_sanitizers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "==1==ERROR: LeakSanitizer: detected memory leaks\n\n"
        "Direct leak of 8 byte(s) in 1 object(s) allocated from:\n"
        "    #0 0x7f in operator new(unsigned long) (/usr/lib/libasan.so.8+0xb7f0) (BuildId: 01ab)\n"
        "    #1 0x55 in foo::bar(int, char) /src/a b.cc:12:34\n"
        "    #2 0x56  (/usr/lib/libfoo.so+0x1234)\n"
        "    #3 0x57 (<unknown module>)\n"
        "    #4 0x58\n"
    )
    profile = check(sanitizer.read([path]))
    assert profile.frames[:3] == [
        Frame("operator new(unsigned long)", "native", "libasan.so.8"),
        Frame(
            "foo::bar(int, char) /src/a", "native", file="b.cc", line=12
        ),  # a folder with a space: ambiguous
        Frame("libfoo.so+0x1234", "native", "libfoo.so"),
    ]
    assert sanitizer.CUT.format(name="log") in profile.lacks


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("0x48417B4: malloc (in /usr/lib/vg.so)", Frame("malloc", "native", "vg.so")),
        ("0x1: foo::bar(int) (a.cpp:3)", Frame("foo::bar(int)", "native", "", "a.cpp", 3)),
        ("0x1: foo::bar(int)", Frame("foo::bar(int)", "native")),
        ("0x1A: ??? (in /usr/lib/libz.so.1)", Frame("libz.so.1 at 0x1a", "native", "libz.so.1")),
        ("0x1A: ???", Frame("0x1a", "native")),
        ("0x1: os::malloc(unsigned long) (in /jre/lib/server/libjvm.so)",
         Frame("os::malloc(unsigned long)", "jvm", "libjvm.so")),
    ],
)  # fmt: skip
def test_frames_of_valgrind(text: str, frame: Frame) -> None:
    assert valgrind_frames.frame(text) == frame


def test_what_every_jvm_holds_is_noise() -> None:
    """GIVEN a block of HotSpot's own and one of a library that Java calls THEN the first alone is noise."""
    malloc = Frame("malloc", "native", "vgpreload_memcheck-amd64-linux.so")
    hotspot = Frame("os::malloc(unsigned long, MEMFLAGS)", "jvm", "libjvm.so")
    zlib = Frame("inflateInit2_", "native", "libz.so.1")
    assert loss_records.is_noise([malloc, hotspot])
    assert loss_records.is_noise([malloc, Frame("_dl_new_object", "native", "", "dl-object.c", 92)])
    assert not loss_records.is_noise([malloc, zlib, Frame("0x1234", "native"), hotspot])
    assert not loss_records.is_noise([malloc])


def test_memcheck_of_a_jvm() -> None:
    """GIVEN 24,000 blocks that a JVM holds at its exit, 60 Inflaters among them THEN those have the most."""
    profile = check(memcheck.read([SAMPLES / "memcheck-jvm.txt.gz"]))
    ((number, frames),) = stacks_of(profile, "inflateInit2_")
    assert [frame.name for frame in frames[:3]] == [
        "malloc",
        "inflateInit2_",
        "Java_java_util_zip_Inflater_init",
    ]
    live = {row["stack"]: (row["live_blocks"], row["live_bytes"]) for row in profile.series}
    assert live[number] == max(live.values(), key=lambda row: row[1]) == (60, 429_600)
    # With the JVM's own blocks they are those "in use at exit".
    kept = sum(blocks for blocks, _ in live.values())
    assert any(f"in {24_279 - kept:,.0f} blocks are left out" in lack for lack in profile.lacks)


@pytest.mark.parametrize(
    "sample", [*(f"nmt-{version}-detail" for version in (11, 17, 21, 25, 26, 27)), "nmt-25-summary"]
)
def test_native_memory_tracking(sample: str) -> None:
    """GIVEN a JVM's own report THEN the stacks of a category sum up to it, mmap apart."""
    profile = check(native_memory_tracking.read([SAMPLES / f"{sample}.txt"]))
    categories = [frame.name for frame in profile.frames if frame.name.startswith("NMT category ")]
    assert len(categories) >= 15
    if "27" not in sample:
        assert held_by(profile, "NMT category Other") == (8, 8 << 20)
        committed = 10 << 20 if "26" in sample else 64 << 20
        assert held_by(profile, "NMT category Java Heap") == (1, committed)
        assert profile.pid > 0 or "26" in sample  # printed by the JVM itself, without a PID
    if "detail" in sample:
        parameter = "G1CollectorPolicy*" if "11" in sample else ""
        (_, frames), *_ = stacks_of(profile, f"G1CollectedHeap::G1CollectedHeap({parameter})")
        assert frames[-1].name == "NMT category GC"
        assert native_memory_tracking.SITES in profile.lacks
    heap = next(number for number, _ in stacks_of(profile, "NMT category Java Heap"))
    assert profile.kinds[heap - 1] == MMAP


def test_the_total_is_the_report_s() -> None:
    text = (SAMPLES / "nmt-25-detail.txt").read_text()
    committed = int(text.split("committed=")[1].split()[0])
    profile = check(native_memory_tracking.read([SAMPLES / "nmt-25-detail.txt"]))
    assert profile.process["live_bytes"].tolist() == [committed]


def test_native_memory_tracking_of_jdk_8() -> None:
    """GIVEN the report of a JVM without symbols THEN its categories hold what the report says."""
    profile = check(native_memory_tracking.read([SAMPLES / "nmt-8-detail.txt"]))
    # Direct buffers were Internal before JDK 11: 8 MiB of these 11,445 KiB.
    assert held_by(profile, "NMT category Internal") == (1354 + 1, (11445 + 32) << 10)
    assert held_by(profile, "NMT category Class") == (156 + 1, (3199 + 4864) << 10)
    assert held_by(profile, "NMT category Thread") == (60 + 1, 10283 << 10)
    assert held_by(profile, "NMT category Java Heap") == (1, 64 << 20)
    assert native_memory_tracking.SITES in profile.lacks


def test_reports_in_one_file_are_a_series(tmp_path: Path) -> None:
    """GIVEN `while sleep 60; do date -Is; jcmd ...; done >> log` THEN each report is a moment at its time."""
    path = tmp_path / "log"
    report = (SAMPLES / "nmt-25-summary.txt").read_text()
    path.write_text(
        f"2026-11-25T09:00:00+00:00\n{report}2026-11-25T09:01:00+00:00\n"
        + report.replace("malloc=8192KB", "malloc=9216KB")
    )
    profile = check(native_memory_tracking.read([path]))
    assert profile.process["time"].tolist() == [0, 60]
    assert held_by(profile, "NMT category Other") == (8, 9216 << 10)
    assert profile.start == 1795597200


def test_a_text_without_a_report(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("1234:\nNative Memory Tracking:\nis not enabled\n")
    with pytest.raises(UserError, match="line 2: no report of Native Memory Tracking"):
        native_memory_tracking.read([path])


def test_an_impossible_category_has_its_line(tmp_path: Path) -> None:
    """GIVEN two reports in a file, the second with more than an address space holds."""
    path = tmp_path / "log"
    report = (SAMPLES / "nmt-25-summary.txt").read_text()
    second = report.replace("malloc=8192KB", f"malloc={'9' * 15}KB")
    path.write_text(f"4711:\n{report}4711:\n{second}")
    lines = path.read_text().splitlines()
    line = max(at for at, text in enumerate(lines, 1) if re.match(r"- +Other \(reserved=", text))
    assert line > len(lines) / 2
    said = f"line {line}: category Other has more bytes or blocks than an address space holds"
    with pytest.raises(UserError, match=said):
        native_memory_tracking.read([path])


def test_malloc_trace_of_sapmachine() -> None:
    """GIVEN a dump THEN Java frames are Java's, and what it counts beyond its stacks is one stack."""
    profile = check(malloc_trace.read([SAMPLES / "malloctrace.txt"]))
    assert held_by(profile, "java.util.zip.Inflater.init") == (60, 429_600)
    assert held_by(profile, "no stack") == (1, 123)
    assert held_by(profile, "stacks that were not printed") == (1, 100)
    (_, frames), *_ = stacks_of(profile, "inflateInit2_")
    assert frames[1:4] == [
        Frame("inflateInit2_", "native", "libz.so.1"),
        Frame("Java_java_util_zip_Inflater_init", "native", "libzip.so"),
        Frame("java.util.zip.Inflater.init", "java"),
    ]
    assert malloc_trace.EVERY not in profile.lacks
