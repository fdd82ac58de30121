"""Differences between recordings: real ones, those that chance explains, and equal names."""

from __future__ import annotations

import io
import json as standard_json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from harness.paths import ROOT
from harness.simulation import (
    MALLOC,
    Born,
    Cache,
    Churn,
    JustInTime,
    Leak,
    Process,
    compiler,
    inflater,
    java,
    jvm,
    large,
    native,
    native_stack,
)
from offheap.analysis.diff.diff import diff, diff_in_time
from offheap.analysis.diff.results import Diff, SiteChange
from offheap.analysis.gate.conditions import known_sites
from offheap.analysis.leaks.leaks import ranking, suspects
from offheap.analysis.sites.matching import function_name, match
from offheap.analysis.stacks.packages import with_application
from offheap.errors import UserError
from offheap.recording.model import Frame, Module, Recording
from offheap.report.json.diff import diff_json
from offheap.report.terminal.recording import diff as report

MEBI = 1 << 20


def stack(method: str) -> tuple[Frame, ...]:
    return inflater(f"com.example.App.{method}", "com.example.Main.main")


def release(seed: int, extra: str, rate: float = 200, duration: float = 20, **options: Any) -> Recording:
    process = Process(duration, seed)
    process.add(stack("churn"), Churn(500, 20_000, 0.3))
    process.add(stack("leak"), Leak(100, 7160))
    process.add(stack("cache"), Cache(500, 20_000, 500))
    process.add(compiler(), JustInTime(300, 32_768))
    process.add(stack(extra), Leak(rate, 7160))
    return process.record(**options)


def site(result: Diff, method: str) -> SiteChange:
    (found,) = [s for s in result.sites if s.blamed.name == f"com.example.App.{method}"]
    return found


def test_new_and_gone_come_first_and_cover_the_truth() -> None:
    result = diff(release(1, "before"), release(2, "after"))
    first, second = result.sites[:2]
    assert {(first.change, first.blamed.name), (second.change, second.blamed.name)} == {
        ("new", "com.example.App.after"),
        ("gone", "com.example.App.before"),
    }
    assert first.significant
    assert second.significant
    after = site(result, "after").live_bytes
    assert after.old.estimate == 0
    assert after.change.low < 200 * 20 * 7160 < after.change.high
    assert result.changed == {"new": 1, "gone": 1}
    assert result.by_chance == 4
    assert not site(result, "leak").significant


def test_grown_and_shrunk() -> None:
    old, new = release(3, "more", rate=100), release(4, "more", rate=500)
    assert (site(diff(old, new), "more").change, site(diff(old, new), "more").significant) == ("grown", True)
    assert (site(diff(new, old), "more").change, site(diff(new, old), "more").significant) == ("shrunk", True)


def test_what_was_freed_but_is_allocated_still_is_shrunk_not_gone() -> None:
    def recording(seed: int, lifetime: float) -> Recording:
        process = Process(20, seed)
        process.add(stack("held"), Churn(300, 20_000, lifetime))
        return process.record(exact=True)

    old, new = recording(1, 10), recording(1, 1e-6)
    assert site(diff(old, new), "held").change == "shrunk"
    assert site(diff(new, old), "held").change == "grown"


def test_an_exact_recording_has_exact_differences() -> None:
    process, other = Process(20, 5), Process(20, 6)
    numbers = [each.add(stack("leak"), Leak(50, 1000)) for each in (process, other)]
    result = diff(process.record(exact=True), other.record(exact=True))
    change = site(result, "leak")
    (old_blocks, old_bytes), (new_blocks, new_bytes) = process.truth(numbers[0]), other.truth(numbers[1])
    assert change.live_bytes.old.estimate == old_bytes
    assert change.live_bytes.new.estimate == new_bytes
    assert change.live_bytes.change.estimate == new_bytes - old_bytes
    assert change.live_blocks.change.estimate == new_blocks - old_blocks


def test_intervals_cover_the_truth() -> None:
    """Two leaks, sampled anew 100 times: 95 % are covered, within the range of a binomial of 100."""
    old, new = Process(20, 1), Process(20, 2)
    old.add(stack("leak"), Leak(200, 7160))
    new.add(stack("leak"), Leak(300, 7160))
    truth = new.truth(1)[1] - old.truth(1)[1]
    covered = 0
    for seed in range(100):
        change = site(diff(old.record(seed=seed), new.record(seed=1000 + seed)), "leak").live_bytes.change
        covered += change.low <= truth <= change.high
    assert covered >= 89


def test_two_runs_of_one_program_hardly_differ() -> None:
    """10 pairs of runs with 40 sites each: false discoveries are rare for any number of sites."""
    wrong = 0
    for seed in range(10):
        recordings = []
        for run in (0, 1):
            process = Process(20, 100 * seed + run)
            for number in range(10):
                process.add(stack(f"churn{number}"), Churn(300, 30_000, 0.5))
                process.add(stack(f"cache{number}"), Cache(300, 20_000, 300))
                process.add(stack(f"leak{number}"), Leak(100, 7160))
                process.add(stack(f"burst{number}"), Churn(3, 2 << 20, 1.0))
            recordings.append(process.record())
        wrong += sum(diff(*recordings).changed.values())
    assert wrong <= 0.01 * 10 * 40


def test_two_starts_under_a_budget_hardly_differ() -> None:
    """The interval falls from 512 to 32 KiB in the first seconds: tables of a start-up are sampled in one
    run and not in the other."""

    def falls(births: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(births < 3, 512 << 10, 32 << 10) + 0 * sizes

    process = Process(60.0, 3)
    for table in range(40):
        process.add(native_stack(f"make_table_{table}"), Born((0.5,), 400_000))
    process.add(inflater("com.example.Feed.open"), Churn(100, 7160, 0.5))
    runs = [process.record(interval=falls, seed=seed) for seed in range(6)]
    changed = [sum(one.significant for one in diff(runs[at], runs[at + 1]).sites) for at in (0, 2, 4)]
    assert max(changed) <= 1, changed


def test_two_moments_of_one_recording() -> None:
    process = Process(60, 7)
    process.add(stack("leak"), Leak(100, 20_000))
    process.add(stack("late"), Leak(200, 20_000, start=30))
    process.add(stack("churn"), Churn(500, 20_000, 0.3))
    recording = process.record()
    whole = diff_in_time(recording, 20)
    assert site(whole, "late").change == "new"
    assert site(whole, "leak").change == "grown"
    assert not site(whole, "churn").significant
    change = site(whole, "leak").live_bytes.change
    assert change.low < 40 * 100 * 20_000 < change.high
    part = diff_in_time(recording, 20, 40, per_second=True)
    rate = site(part, "leak").live_bytes.change
    assert rate.low < 100 * 20_000 < rate.high
    back = diff_in_time(recording, 0, 20)
    assert site(back, "leak").change == "new"


def test_blocks_in_both_moments_add_no_uncertainty() -> None:
    process = Process(60, 8)
    process.add(stack("leak"), Leak(200, 20_000))
    recording = process.record()
    change = site(diff_in_time(recording, 50), "leak").live_bytes
    last_tenth = 10 * 200 * 20_000
    assert change.change.low < last_tenth < change.change.high
    assert change.change.high - change.change.low < 0.6 * (change.new.high - change.new.low)


def test_gone_in_one_recording() -> None:
    process = Process(60, 9)
    number = process.add(stack("early"), Leak(200, 20_000))
    blocks = process.blocks[number]
    early = blocks.births < 20
    process.blocks[number] = replace(
        blocks, births=blocks.births[early], deaths=np.full(early.sum(), 40.0), sizes=blocks.sizes[early]
    )
    assert site(diff_in_time(process.record(), 30), "early").change == "gone"


@pytest.mark.parametrize(("start", "end"), [(30.0, 20.0), (10.0, 90.0), (70.0, None), (0.001, 10.0)])
def test_moments_that_are_not_there(start: float, end: float | None) -> None:
    process = Process(60, 1)
    process.add(stack("leak"), Leak(100, 20_000))
    with pytest.raises(UserError):
        diff_in_time(process.record(), start, end)


def test_moments_between_which_nobody_read() -> None:
    process = Process(60, 1)
    process.add(stack("leak"), Leak(100, 20_000))
    recording = process.record(snapshots=6)
    with pytest.raises(UserError, match=r"between 11.0 s and 19.0 s; the next is at 20.0 s"):
        diff_in_time(recording, 11, 19)
    with pytest.raises(UserError, match=r"until 5.0 s; the next is at 10.0 s"):
        diff_in_time(recording, 5, 19)
    result = diff_in_time(recording, 11, 29)
    assert (result.old.time, result.new.time) == (10, 20)


def test_durations_count_per_second_and_per_request() -> None:
    old, new = release(1, "x", duration=20), release(2, "x", duration=80)
    assert site(diff(old, new), "x").significant
    assert "--per second" in written(diff(old, new))
    assert "--per second" not in written(diff(old, old))
    by_second = diff(old, new, per_second=True)
    assert not site(by_second, "x").significant
    assert site(by_second, "x").live_bytes.new.low < 200 * 7160 < site(by_second, "x").live_bytes.new.high
    assert not site(diff(old, new, requests=(1000, 4000)), "x").significant


def test_a_function_has_what_all_its_stacks_hold() -> None:
    result = diff(release(1, "before", exact=True), release(2, "after", exact=True))
    names = {f.function.name: f for f in result.functions}
    main = names["com.example.Main.main"]
    own = [s for s in result.sites if s.blamed.name.startswith("com.example.App.")]
    assert main.live_bytes.new.estimate == sum(s.live_bytes.new.estimate for s in own)
    assert main.others == 5, "zlib's and the JDK's functions and Thread.run are in the same stacks"
    assert names["com.example.App.after"].change == "new"
    assert "malloc" not in names


def test_a_function_that_freed_everything_before_is_not_new() -> None:
    """GIVEN a method whose blocks were all freed in one recording and stay in the other."""
    freed, kept = Process(20, 1), Process(20, 2)
    freed.add(inflater("com.example.App.open", "com.example.Main.main"), Churn(50, 7160, 1e-6))
    kept.add(inflater("com.example.App.open", "com.example.Main.main"), Leak(50, 7160))
    one, other = freed.record(exact=True), kept.record(exact=True)
    assert not len(one.live)
    for result, change in ((diff(one, other), "grown"), (diff(other, one), "shrunk")):
        assert [site.change for site in result.sites] == [change]
        assert {one.change for one in result.functions} == {change}


def test_names_outlive_a_build() -> None:
    """Other lines, addresses, versions, clones and numbers of generated classes: the same site."""

    def build(line: int, offset: str, version: str, number: int) -> tuple[Frame, ...]:
        return (
            MALLOC,
            native("inlined", "libapp.so"),
            native(f"libapp.so+{offset}", "libapp.so"),
            native(f"encode(int).constprop.{number}", f"libcodec.so.{version}", "codec.cc", line),
            java(f"com.example.Codec.lambda$encode${number}", line),
            java(f"com.example.Main$$Lambda.0x{number:016x}.run", 0),
            java(f"com.example.Shop$$EnhancerBySpringCGLIB$$1a{number}.buy", line),
            java("com.example.Main.main", line + 5),
        )

    processes = [Process(20, 1), Process(20, 2)]
    processes[0].add(build(10, "0x1234", "1.1", 3), Leak(50, 20_000))
    processes[1].add(build(17, "0x5678", "3", 5), Leak(50, 20_000))
    result = diff(processes[0].record(exact=True), processes[1].record(exact=True))
    assert len(result.sites) == 1
    assert result.sites[0].change in ("grown", "shrunk")


def test_of_functions_in_the_same_stacks_the_applications_stands_for_all() -> None:
    process = Process(20, 1)
    process.add(inflater("org.other.Codec.decode", "com.example.Feed.open"), Leak(100, 7160))
    recording = process.record(exact=True)
    # Its main class is com.example.Main; the user's option overrides it.
    for said, wanted in ((), "com.example.Feed.open"), (("org.other",), "org.other.Codec.decode"):
        result = diff_in_time(with_application(recording, said), 5.0)
        assert [one.function.name for one in result.functions] == [wanted]
        assert result.functions[0].others > 4


def test_addresses_tell_functions_apart_in_one_build_only() -> None:
    def recordings(*builds: str) -> list[Recording]:
        result = []
        for build in builds:
            process = Process(5, 1)
            for offset in ("0x10", "0x20"):
                process.add((MALLOC, native(f"libapp.so+{offset}", "libapp.so")), Leak(50, 20_000))
            module = Module("/opt/lib/libapp.so", build, 0, 1, 0)
            result.append(replace(process.record(exact=True), modules=[module]))
        return result

    assert len(diff(*recordings("aa", "aa")).sites) == 2
    assert len(diff(*recordings("aa", "bb")).sites) == 1
    assert len(diff(*recordings("", "")).sites) == 1


def test_jdks_differ_in_frames_of_their_own() -> None:
    processes = [Process(5, 1), Process(5, 2)]
    inner = (MALLOC, native("Java_java_util_zip_Inflater_init"), java("java.util.zip.Inflater.init"))
    own = java("com.example.Shop.buy", 3)
    processes[0].add((*inner, own, java("java.lang.Thread.run")), Leak(50, 20_000))
    processes[1].add(
        (*inner, own, java("java.lang.Thread.runWith"), java("java.lang.Thread.run")), Leak(50, 20_000)
    )
    old, new = (process.record(exact=True) for process in processes)
    assert len(diff(old, new).sites) == 2
    newer = replace(new, info=replace(new.info, java_version="21.0.2"))
    assert len(diff(old, newer).sites) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("com.example.Foo.lambda$run$12", "com.example.Foo.lambda$run"),
        ("jdk.proxy2.$Proxy45.call", "proxy.$Proxy.call"),
        ("com.example.Foo$Bar.run", "com.example.Foo$Bar.run"),
        ("com.example.Foo$1.run", "com.example.Foo$1.run"),
    ],
)
def test_java_names_keep_what_a_person_wrote(name: str, expected: str) -> None:
    assert function_name(java(name))[0] == expected


def test_sites_of_one_recording_match_as_they_do_alone() -> None:
    recording = release(1, "x")
    sites = match((recording, recording)).sites
    assert (sites[0] == sites[1]).all()


def two_methods_of_one_codec(seed: int, old: bool) -> Recording:
    """OLD leaks one object by two methods; NEW frees what they allocate, after times that differ."""
    process = Process(40, seed)
    for function, method, lifetime in (("alloc", "open", 0.5), ("fill", "start", 0.2)):
        library = (native(function, "libcodec.so"), native(f"Java_com_codec_{function}", "libcodec.so"))
        callers = (java(f"com.codec.Encoder.{function}"), java(f"com.codec.Encoder.{method}", 41))
        behaviour = Leak(4, 3000) if old else Churn(40, 3000, lifetime)
        process.add((MALLOC, *library, *callers, java("com.example.Shop.buy", 10)), behaviour)
    process.add(native_stack("churn"), Churn(300, 7000, 0.1))
    return process.record(interval=8 << 10)


def test_the_verdict_on_old_is_that_of_its_own_sites() -> None:
    """GIVEN an object that OLD's blocks join to one site and NEW's do not THEN both parts leak in OLD."""
    old, new = two_methods_of_one_codec(10, True), two_methods_of_one_codec(110, False)
    alone = [one for one in suspects(old) if "com.codec" in str(one.site.stack)]
    assert [(one.verdict, len(one.site.stacks)) for one in alone] == [("leak", 2)]
    changed = [one for one in diff(old, new).sites if "com.codec" in str(one.stack)]
    growths = [one.growth for one in changed if one.growth]
    assert [(one.old, one.new) for one in growths] == 2 * [("leak", "steady")]
    # The gate's baseline as well: what leaked in it is known, however the sites of both are cut.
    known = known_sites(new, old, ranking(old))
    codec = [one for one in suspects(new) if "com.codec" in str(one.site.stack)]
    assert [known.verdict(one) for one in codec] == ["leak", "leak"]


def test_a_stack_without_frames_and_a_recording_without_stacks() -> None:
    empty = Process(20, 1).record()
    assert diff(empty, empty).sites == ()
    result = diff(empty, release(1, "x"))
    assert result.changed["new"] >= 2
    process = Process(5, 1)
    process.add((), Leak(50, 20_000))
    process.add((jvm("os::malloc(unsigned long)"),), Leak(50, 20_000))
    assert len(diff(process.record(), process.record()).sites) == 2


def written(result: Diff, **options: Any) -> str:
    out = Console(file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False)
    report.print_diff(out, result, **options)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_the_text_says_what_changed_first() -> None:
    result = diff(release(1, "before"), release(2, "after"))
    text = written(result)
    assert "Sites: 1 new, 1 gone; 4 within what chance explains (--all shows them)." in " ".join(
        text.split("\n")
    )
    assert "java.util.zip.Inflater.<init>, called by com.example.App.after  App.java:10" in text
    assert text.index("NEW") < text.index("Functions")
    assert "com.example.App.leak" not in text
    assert "com.example.App.leak" in written(result, everything=True)
    assert "native  inflateInit2_  libz.so.1" in written(result, full=True)
    assert all(len(line) <= 80 for line in text.splitlines() if "com.example" not in line), text


def test_a_hostile_name_does_not_steer_the_terminal() -> None:
    process = Process(20, 1)
    process.add(native_stack("evil\x1b[31m\u202e(int)"), Leak(300, 20_000))
    text = written(diff(Process(20, 1).record(), process.record()), full=True)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "evil\\x1b[31m\\u202e" in text


def test_json_has_what_the_document_says() -> None:
    value = diff_json(diff(release(1, "before"), release(2, "after"), most=1))
    assert standard_json.loads(standard_json.dumps(value, allow_nan=False)) == value
    document = (ROOT / "docs" / "json.md").read_text()
    part = document[document.index("## offheap.diff/1") :].split("\n## ")[0]
    block = part.split("```json\n")[1].split("```")[0].replace("{...}", "{}")
    shown = standard_json.loads(block)
    assert list(shown) == list(value)
    assert list(shown["sites"][0]) == list(value["sites"][0])
    assert list(shown["functions"][0]) == list(value["functions"][0])
    assert list(shown["old"]) == list(value["old"])


def test_twenty_thousand_stacks_each_take_little_more_than_their_share() -> None:
    """The time grows as the number of stacks does: with its square, ten times as many take a hundredfold."""

    def seconds(stacks: int) -> float:
        old = large(5 * stacks, stacks, snapshots=5)
        live = old.live.copy()
        live["stack"] = 1 + np.random.default_rng(4).integers(0, stacks, len(live))
        new = replace(old, live=live)
        start = time.process_time()
        result = diff(old, new, most=200)
        took = time.process_time() - start
        assert len(result.sites) == 200
        return took

    assert seconds(20_000) < 15 * min(seconds(2_000) for _ in range(3)), "7 to 9, measured"
