"""Blocks and levels of one recording: `leaks`, `check`, `where` and the ticket never disagree."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from harness.recordings.blocks_and_levels import BLOCKS, LEAKING, LEVELS, MIB, SECONDS, owners, recorded
from harness.simulation import MALLOC, Leak, Process, java, jvm, native, native_stack
from offheap.analysis.gate.gate import Limits, gate
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.owners_with_blocks import owners_with_blocks
from offheap.analysis.leaks.reconcile import beside
from offheap.analysis.leaks.ticket import ticket
from offheap.analysis.owners.results import WhereVerdict
from offheap.analysis.owners.verdict import FEWEST_READINGS, judge
from offheap.analysis.page.recording_page import recording_page
from offheap.analysis.totals import totals
from offheap.probe.contract import StackKind
from offheap.quantities import PER_MINUTE
from offheap.recording.model import OwnersOverTime
from offheap.report.html.payload import payload
from offheap.report.json import schemas
from offheap.report.ticket import markdown
from offheap.report.ticket import ticket as ticket_report


def where(ranked: Ranking) -> WhereVerdict:
    assert ranked.owners
    return owners_with_blocks(ranked.owners, ranked).verdict


def where_alone(over: OwnersOverTime) -> str:
    return judge(over).verdict.why


@pytest.mark.parametrize(("blocks", "level"), list(itertools.product(BLOCKS, LEVELS)))
def test_no_command_contradicts_another(blocks: str, level: str) -> None:
    recording = recorded(blocks, level)
    ranked = ranking(recording)
    words, verdict = answer(ranked), where(ranked)
    kind = ranked.counts()
    concluded = ticket(recording, ranked).found.kind
    (check,) = gate(recording, Limits(leaks=True)).checks
    # One conclusion in words, in the gate, on the page and in the ticket.
    begins = {
        "leak": "Leaking: ",
        "growing": "Growing, ",
        "no leak": "No leak found ",
        "cannot tell yet": "Cannot tell ",
    }
    assert words.startswith(begins[concluded]), words
    assert ticket(recording, ranked).answer == words
    assert payload(recording_page(recording, ranked))["conclusion"]["kind"] == concluded
    outcomes = {"leak": "failed", "no leak": "passed"}
    assert check.outcome == outcomes.get(concluded, "cannot tell"), check.why
    # A leak of blocks is a leak for any course of the pages.
    if kind["leak"]:
        assert concluded == "leak"
        assert verdict.kind not in ("stable", "cannot tell yet")
        assert LEAKING in verdict.why
    # Growing pages of blocks are growth, with or without a site that explains it.
    grows = verdict.kind in ("native-malloc", "native-mmap", "direct-buffers")
    if grows:
        assert concluded in ("leak", "growing")
    if concluded == "no leak":
        assert verdict.kind in ("stable", "cannot tell yet", "mapped-files")
    if concluded == "growing":
        assert verdict.kind != "stable"
    # Memory that is no native block is stated separately, and is no growth of blocks.
    assert ("mapped files grow" in words.lower()) == (level == "files")
    sheet = ticket_report.value(ticket(recording, ranked))
    assert sheet["owners_verdict"] == {"kind": verdict.kind, "why": verdict.why}
    assert f"What of it grows: {verdict.kind}" in markdown.write(
        ticket_report.document(ticket(recording, ranked))
    )


def test_the_gate_counts_the_growth_that_the_answer_counts() -> None:
    """JNI references that a native thread creates: the frames are HotSpot's, the growth is its caller's."""
    process = Process(SECONDS, 1)
    names = ("os::malloc(unsigned long)", "OopStorage::allocate()", "JNIHandles::make_global(Handle)")
    process.add((MALLOC, *map(jvm, names), jvm("jni_NewGlobalRef")), Leak(3, 600))
    recording = process.record(interval=32 << 10)
    ranked = ranking(recording)
    assert (ranked[0].verdict, ranked[0].blamed.kind) == ("growing", "jvm")
    assert answer(ranked).startswith("Growing, ")
    (leaks,) = gate(recording, Limits()).checks
    assert (leaks.outcome, [one.rank for one in leaks.suspects]) == ("cannot tell", [1])
    (growth,) = gate(recording, Limits(max_growth=100.0)).checks
    assert (growth.outcome, [one.rank for one in growth.suspects]) == ("failed", [1])


def test_malloc_that_no_site_explains_is_growth_in_all_commands() -> None:
    recording = recorded("churn", "much")
    ranked = ranking(recording)
    words = answer(ranked)
    assert words.startswith("Growing, and not shown to be a leak: malloc's memory grew by 240 MiB/min (")
    assert "no site explains it" in words
    assert "Record " in words
    for limits in (Limits(), Limits(max_growth=float(MIB))):
        (check,) = gate(recording, limits).checks
        assert (check.outcome, "no site explains it" in check.why) == ("cannot tell", True)
    assert where(ranked).kind == "native-malloc"
    assert "no site explains it" in where(ranked).why
    power = schemas.power(ticket(recording, ranked).found)
    assert power["conclusion"] == "growing"
    assert power["unexplained"]["growth_bytes_per_second"]["estimate"] == pytest.approx(4 * MIB, rel=0.02)
    assert abs(power["unexplained"]["live_blocks_growth_bytes_per_second"]) < 0.1 * MIB


@pytest.mark.parametrize(("blocks", "concluded"), [("churn", "no leak"), ("leak", "leak")])
def test_a_recording_that_lost_samples_clears_nothing_in_any_command(blocks: str, concluded: str) -> None:
    """Some 5,000 samples, every twentieth lost: what else is a leak stays one."""
    whole = recorded(blocks, "flat")
    few, many = (
        replace(whole, info=replace(whole.info, lost={"lost_blocks": round(share * totals.samples(whole))}))
        for share in (0.005, 0.05)
    )
    assert ticket(few, ranking(few)).found.kind == concluded
    ranked = ranking(many)
    (check,) = gate(many, Limits()).checks
    if concluded == "leak":
        assert (ticket(many, ranked).found.kind, check.outcome) == ("leak", "failed")
        return
    found = ticket(many, ranked).found
    assert (found.kind, found.seconds, check.outcome) == ("cannot tell yet", None, "cannot tell")
    assert check.why == found.lost
    assert answer(ranked) == f"Cannot tell yet: {found.lost}."
    assert "samples were lost beside" in found.lost
    assert found.power.excludes(found.limit)


@pytest.mark.parametrize(("mib", "kind"), [(3, "cannot tell yet"), (12, "native-malloc")])
def test_a_little_of_malloc_that_no_site_explains_may_be_fragments(mib: int, kind: str) -> None:
    recording = recorded("churn", "flat")
    ranked = ranking(replace(recording, owners=owners("malloc", 1.5 * mib * MIB / SECONDS)))
    assert ranked.owners
    assert ranked.owners.verdict.kind == "native-malloc"
    verdict = where(ranked)
    assert verdict.kind == kind, verdict
    assert ("may be fragments" in verdict.why) == (kind == "cannot tell yet")
    assert answer(ranked).startswith("Growing, and not shown to be a leak: malloc's memory grew by ")
    if kind == "cannot tell yet":
        assert verdict.needs_seconds
        assert verdict.needs_seconds == pytest.approx(SECONDS * 8 / mib, rel=0.25)


@pytest.mark.parametrize(
    ("owner", "kind"), [("direct-buffers", "direct-buffers"), ("anonymous", "native-mmap")]
)
def test_only_malloc_has_fragments(owner: str, kind: str) -> None:
    """The JDK counts direct buffers, and mappings lie in no arena."""
    ranked = ranking(replace(recorded("churn", "flat"), owners=owners(owner, 5 * MIB / SECONDS)))
    assert where(ranked).kind == kind
    assert "may be fragments" not in where(ranked).why


def test_growth_beside_a_heap_of_any_size_is_said_by_all_commands() -> None:
    """0.1 MiB/s of malloc beside 64 GiB is too little in a minute, and no all-clear."""
    small = owners("malloc", 0.1 * MIB)
    heap = small.names.index("java-heap")
    held = small.bytes.copy()
    held[:, heap] += 64 << 30
    ranked = ranking(
        replace(recorded("churn", "flat"), owners=replace(small, bytes=held, rss=held.sum(axis=1)))
    )
    assert where(ranked).kind == "cannot tell yet"
    assert "malloc's memory grew by" in where(ranked).why
    assert "malloc's memory grew by 6.0 MiB/min, which is too little so far beside the RSS" in answer(ranked)


def test_a_limit_above_the_growth_of_the_level_passes_and_says_it() -> None:
    (check,) = gate(recorded("churn", "as the leak"), Limits(max_growth=float(MIB))).checks
    assert check.outcome == "passed"
    assert "malloc's memory grew by 16.4 MiB/min" in check.why


def test_live_blocks_that_grow_at_no_site_for_sure_are_named() -> None:
    process = Process(SECONDS, 5)
    stack = process.add(native_stack("index"), Leak(20, 7160, start=0.0))
    recording = replace(process.record(interval=32 << 10), owners=owners("malloc", 20 * 7160.0))
    ranked = ranking(recording)
    assert ranked[0].site.stacks == (stack,)
    known = ranked.level()
    assert known is not None
    assert known.explained
    assert (
        ranked.grew_most() == f"index ({PER_MINUTE.format(ranked.growth(0).estimate)}, {ranked.verdicts[0]})"
    )
    assert ranked.level(without=[0]) is None


def test_pages_that_grow_ever_slower_are_said_beside_no_leak() -> None:
    recording = recorded("churn", "flat")
    over = owners("malloc", 0.0)
    held = over.bytes.copy()
    held[:, 0] += 20 * MIB * (1 - np.exp(-over.times / 12))
    slower = replace(over, bytes=held, rss=held.sum(axis=1), gauges={"process-age": over.times + 600})
    ranked = ranking(replace(recording, owners=slower))
    assert ranked.owners
    assert ranked.owners.verdict.kind == "cannot tell yet", ranked.owners.verdict
    words = answer(ranked)
    assert words.startswith("No leak found ")
    assert "malloc's memory grew by " in words
    assert "ever slower, as in a warm-up (offheap where has more)." in words


def test_pages_are_named_from_the_readings_that_a_verdict_needs() -> None:
    for count, named in ((FEWEST_READINGS - 1, False), (FEWEST_READINGS, True)):
        times = np.linspace(0.0, 60.0, count)
        held = (30 + times / 3) * MIB
        filling = OwnersOverTime(times, ["malloc"], held[:, None], held, {"age": times + 10})
        found = judge(filling)
        assert found.verdict.kind == "cannot tell yet"
        assert ("too few" in found.verdict.why) != named
        assert ("a cache that fills" in beside(filling, found)) == named


@pytest.mark.parametrize("seen", [False, True])
def test_too_few_readings_still_say_what_no_recorded_mapping_explains(seen: bool) -> None:
    """A library may map memory by its own system calls: no probe sees them."""
    process = Process(SECONDS, 2)
    process.add((native("malloc", ""), native("new_store")), Leak(40, 7160))
    if seen:
        process.add((native("mmap", ""), native("map_window")), Leak(1, MIB), kind=StackKind.MMAP)
    many = owners("unattributed", 1.0 * MIB)
    few = OwnersOverTime(many.times[::6], many.names, many.bytes[::6], many.rss[::6])
    ranked = ranking(replace(process.record(exact=True), owners=few))
    rose = "anonymous memory that neither the JVM nor malloc is known to hold rose at each of the last 3"
    assert f"are too few; {rose}" in where_alone(few)
    # The level has a rate where its rise is even, and only the fact of a rise where it is not.
    assert ("Anonymous mapped memory grew by " in answer(ranked)) != seen
    uneven = replace(few, bytes=few.bytes[0] + np.array([[0, 1, 2, 3, 30]]).T * MIB)
    told = answer(ranking(replace(process.record(exact=True), owners=uneven)))
    assert (rose.lower() in told.lower()) != seen
    falls = replace(few, bytes=few.bytes[::-1])
    assert "rose" not in where_alone(falls)
    assert "rose" not in answer(ranking(replace(process.record(exact=True), owners=falls)))


def test_where_names_direct_buffers_that_leak_by_blocks() -> None:
    process = Process(SECONDS, 2)
    buffer = (native("malloc", ""), jvm("Unsafe_AllocateMemory0"), java("java.nio.DirectByteBuffer.<init>"))
    callers = (java("java.nio.ByteBuffer.allocateDirect"), java("com.example.Tiles.render", 12))
    process.add((*buffer, *callers), Leak(40, 7160))
    recording = process.record(interval=32 << 10)
    survived = replace(recording.info, after_collection=True)
    ranked = ranking(replace(recording, info=survived, owners=owners("malloc", 0.0)))
    assert ranked.verdicts[0] == "leak"
    assert where(ranked).kind == "direct-buffers"
    mapped = Process(SECONDS, 2)
    mapped.add((native("mmap", ""), native("map_window")), Leak(1, MIB), kind=2)
    ranked = ranking(replace(mapped.record(exact=True), owners=owners("malloc", 0.0)))
    assert where(ranked).kind == "native-mmap"


@pytest.mark.parametrize(("mib", "concluded"), [(1.0, "growing"), (0.1, "no leak")])
def test_pages_that_rise_in_few_readings_are_not_cleared(mib: float, concluded: str) -> None:
    """Beside a program that computes little a recording of a minute has some six readings."""
    many = owners("anonymous", mib * MIB)
    few = OwnersOverTime(many.times[::5], many.names, many.bytes[::5], many.rss[::5])
    recording = replace(recorded("churn", "flat"), owners=few)
    ranked = ranking(recording)
    assert where(ranked).kind == "cannot tell yet"
    assert ticket(recording, ranked).found.kind == concluded
    assert ("anonymous mapped memory grew by 59.9" in answer(ranked)) == (concluded == "growing")
    outcome = "cannot tell" if concluded == "growing" else "passed"
    assert gate(recording, Limits(leaks=True)).outcome == outcome


@pytest.mark.parametrize(("owner", "kind"), [("malloc", "native-malloc"), ("jvm-malloc", "direct-buffers")])
def test_memory_of_unsafe_is_where_native_memory_tracking_counts_it(owner: str, kind: str) -> None:
    """As by the pages alone, had there been more readings."""
    process = Process(SECONDS, 2)
    process.add(
        (
            native("malloc", ""),
            jvm("Unsafe_AllocateMemory0"),
            java("jdk.internal.misc.Unsafe.allocateMemory0"),
            java("com.example.Index.grow", 12),
        ),
        Leak(40, 7160),
    )
    recording = process.record(interval=32 << 10)
    survived = replace(recording.info, after_collection=True)
    ranked = ranking(replace(recording, info=survived, owners=owners(owner, 0.0)))
    assert ranked.verdicts[0] == "leak"
    assert where(ranked).kind == kind


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("metaspace::VirtualSpaceNode::commit_range", "metaspace"),
        ("VirtualSpaceList::expand_by", "metaspace"),
        ("CodeHeap::expand_by", "code-cache"),
        ("StackOverflow::create_stack_guard_pages", "threads"),
        ("os::reserve_memory", "native-mmap"),
    ],
)
def test_mappings_of_hotspot_are_their_owners(function: str, kind: str) -> None:
    """Classes that leak are metaspace, by their mappings as by the pages."""
    process = Process(SECONDS, 3)
    stack = (
        native("mmap", ""),
        jvm("os::commit_memory"),
        jvm(function),
        java("com.example.Rules.compile", 7),
    )
    process.add(stack, Leak(2, 64 << 10), kind=StackKind.MMAP)
    recording = replace(process.record(interval=32 << 10), owners=owners("malloc", 0.0))
    ranked = ranking(replace(recording, info=replace(recording.info, after_collection=True)))
    assert ranked.verdicts[0] == "leak"
    assert where(ranked).kind == kind


def test_a_leak_that_explains_a_part_leaves_the_rest_said() -> None:
    words = answer(ranking(recorded("leak", "much")))
    assert words.startswith("Leaking: ")
    assert "more than that explains" in words
    assert "more than that explains" not in answer(ranking(recorded("leak", "as the leak")))


def test_growth_of_what_is_suppressed_explains_the_level() -> None:
    class Everything:
        def covers(self, stack: object) -> bool:
            return True

    explained = recorded("leak", "as the leak")
    assert gate(explained, Limits(leaks=True), suppressions=[Everything()]).outcome == "passed"
    assert (
        gate(recorded("leak", "much"), Limits(leaks=True), suppressions=[Everything()]).outcome
        == "cannot tell"
    )


def test_a_recording_whose_owners_nobody_watched_is_judged_by_blocks() -> None:
    recording = replace(recorded("churn", "much"), owners=OwnersOverTime.none())
    ranked = ranking(recording)
    assert ranked.owners is None
    assert answer(ranked).startswith("No leak found ")
    assert ticket(recording, ranked).grows is None


@pytest.mark.parametrize(
    ("grows", "expected"),
    [
        ("mapped-files", "mapped-files"),
        ("jars", "mapped-files"),
        ("anonymous", "native-mmap"),
        ("malloc", "native-mmap"),
    ],
)
def test_mappings_that_leak_are_files_where_the_pages_of_files_grow(grows: str, expected: str) -> None:
    """The readings are too few for a verdict on the pages alone."""
    process = Process(SECONDS, 3)
    process.add(native_stack("open_index"), Leak(4, 256 << 10), kind=StackKind.MMAP)
    many = owners(grows, 1.0 * MIB)
    few = OwnersOverTime(many.times[::6], many.names, many.bytes[::6], many.rss[::6])
    verdict = where(ranking(replace(process.record(interval=32 << 10), owners=few)))
    assert verdict.kind == expected
    assert "by the pages alone the verdict is cannot tell yet" in verdict.why
