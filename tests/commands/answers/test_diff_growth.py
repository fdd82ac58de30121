"""A diff compares growth, not end states alone: it finds the leak that NEW has and OLD has not."""

from __future__ import annotations

import io
import json as standard_json
import subprocess
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.console import Console

from harness import needs
from harness.command_line import offheap
from harness.jvms.java_homes import jdk_homes
from harness.jvms.zoo import Running
from harness.paths import JAVA
from harness.simulation import (
    Cache,
    Churn,
    Generations,
    JustInTime,
    Leak,
    Process,
    Sawtooth,
    UnevenLeak,
    WarmUp,
    compiler,
    inflater,
    native,
    native_stack,
)
from harness.warm_command import warm
from offheap.analysis.diff.diff import diff, diff_in_time
from offheap.analysis.diff.results import Diff
from offheap.analysis.leaks.leaks import ranking
from offheap.recording import load
from offheap.recording.model import MMAP, Recording
from offheap.report.json.diff import diff_json
from offheap.report.terminal.recording import diff as report
from offheap.report.text.diff import headline

SOURCE = JAVA / "Orders.java"
KEPT = "Orders.take"


def build(
    seed: int, seconds: float = 40.0, leak: float = 0.0, churn: float = 1.0, interval: int = 32 << 10
) -> Recording:
    """One build of one program: 180 sites, the same for every seed; `leak` in bytes a second."""
    process = Process(seconds, seed)
    for number in range(45):
        process.add(
            inflater(f"com.example.Work{number}.run"),
            Churn(churn * (3 + number), 500 + 137 * number, 0.05 * (1 + number % 7)),
        )
        process.add(native_stack(f"warm{number}"), WarmUp(20 + number, 900 + 11 * number, 0.5 + number % 5))
        process.add(native_stack(f"saw{number}"), Sawtooth(4 + number % 5, 700 + 90 * number, 1 + number % 6))
        process.add(native_stack(f"pool{number}"), Generations(3 + number % 4, 8000, 2 + number % 9))
    process.add(native_stack("cache"), Cache(20, 9000, 200))
    process.add(compiler("Compile::Compile"), JustInTime(400, 2000))
    if leak:
        process.add(native_stack("keep", "decode"), UnevenLeak(leak / 3000, 3000))
    return process.record(interval=interval)


def text(result: Diff) -> str:
    out = Console(file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False)
    report.print_diff(out, result)
    assert isinstance(out.file, io.StringIO)
    return " ".join(out.file.getvalue().split())


def test_two_recordings_of_a_healthy_build_do_not_differ() -> None:
    changed: Counter[str] = Counter()
    grows: Counter[str] = Counter()
    for seed in range(40):
        seconds = (20.0, 40.0, 60.0)[seed % 3]
        result = diff(build(2 * seed, seconds), build(2 * seed + 1, seconds))
        changed.update(result.changed)
        grows.update(result.grows)
    assert sum(grows.values()) <= 1, grows
    assert sum(changed.values()) <= 2, changed


def test_a_leak_in_new_comes_first() -> None:
    """2.7 MiB of 60 MiB in 40 s: less than the variation of all sites together."""
    first = 0
    for seed in range(15):
        result = diff(build(2 * seed), build(2 * seed + 1, leak=2.7 * (1 << 20) / 40))
        site = result.sites[0]
        first += site.blamed.name == "keep" and site.significant
        if site.growth and site.growth.change == "leaks":
            assert (site.growth.old, site.growth.new) == (None, "leak")
            assert site.growth.rate.change.low > 0
    assert first >= 14


def test_a_leak_among_blocks_that_are_freed_in_batches_is_told_by_its_survivors() -> None:
    """The site holds 0 to 5.7 MiB and leaks half of that in 40 s: its end states show nothing."""

    def recorded(seed: int, leak: float) -> Recording:
        process = Process(40.0, seed)
        for number in range(60):
            process.add(inflater(f"com.example.Work{number}.run"), Churn(3 + number, 500 + 137 * number, 0.2))
        batches = Sawtooth(200, 7160, 4.0)
        process.add(native_stack("keep"), batches, *([Leak(leak / 7160, 7160)] if leak else []))
        return process.record(interval=32 << 10)

    found = healthy = 0
    for seed in range(12):
        result = diff(recorded(2 * seed, 0), recorded(2 * seed + 1, 2.7 * (1 << 20) / 40))
        site = result.sites[0]
        found += site.blamed.name == "keep" and site.growth is not None and site.growth.change != ""
        if site.growth and site.growth.change:
            assert site.growth.rate.change.low > 0
        healthy += sum(diff(recorded(2 * seed, 0), recorded(2 * seed + 1, 0)).grows.values())
    assert found >= 4, "by end states none is found"
    assert healthy == 0


def test_it_comes_first_by_second_and_by_request_as_well() -> None:
    old, new = build(1), build(2, leak=100_000)
    for result, words in (
        (diff(old, new, per_second=True), "leaks in NEW, not in OLD: 0 B/s -> "),
        (diff(old, new, requests=(4000.0, 4000.0)), "leaks in NEW, not in OLD: 0 B a request -> "),
    ):
        assert result.sites[0].blamed.name == "keep"
        assert result.grows == {"leaks": 1}
        assert words in text(result)
        assert text(result).startswith("1 site leaks in NEW and not in OLD. Live malloc memory")


def test_a_leak_that_was_mended_is_said() -> None:
    result = diff(build(3, leak=200_000), build(4))
    (site,) = [each for each in result.sites if each.growth and each.growth.change]
    assert site.growth
    assert (site.growth.change, site.growth.old) == ("leaks no more", "leak")
    assert "1 site leaks in OLD and no longer in NEW." in text(result)


def test_a_leak_in_both_is_a_change_only_at_another_rate() -> None:
    alike = diff(build(5, leak=200_000), build(6, leak=200_000))
    assert not next(each for each in alike.sites if each.blamed.name == "keep").significant
    faster = diff(build(5, leak=100_000), build(6, leak=400_000))
    assert faster.sites[0].blamed.name == "keep"
    assert faster.sites[0].growth
    assert faster.sites[0].growth.change == "faster"
    slower = diff(build(6, leak=400_000), build(5, leak=100_000))
    assert slower.grows == {"slower": 1}


def test_recordings_of_other_lengths_are_compared_by_rate() -> None:
    """A leak in both recordings is no new leak of NEW because NEW is longer."""
    result = diff(build(7, 20.0, leak=200_000), build(8, 60.0, leak=200_000), per_second=True)
    assert "leaks" not in result.grows
    result = diff(build(7, 60.0), build(8, 20.0, leak=400_000))
    assert result.sites[0].blamed.name == "keep"


def test_verdicts_are_those_of_leaks() -> None:
    old, new = build(9), build(10, leak=150_000)
    result = diff(old, new)
    for recording, side in ((old, "old"), (new, "new")):
        verdicts = {one.blamed.name: one.verdict for one in ranking(recording)}
        for site in result.sites:
            assert site.growth
            assert getattr(site.growth, side) == verdicts.get(site.blamed.name)


def test_json_and_moments_of_one_recording() -> None:
    old, new = build(11), build(12, leak=150_000)
    value = diff_json(diff(old, new))
    assert value["grows"] == {"leaks": 1, "leaks no more": 0, "faster": 0, "slower": 0}
    growth = value["sites"][0]["growth"]
    assert growth["change"] == "leaks"
    assert growth["verdicts"] == {"old": None, "new": "leak"}
    assert growth["bytes"]["change"]["low"] > 0
    within = diff_in_time(new, 20.0)
    assert within.grows == {}
    assert diff_json(within)["sites"][0]["growth"] is None


def test_the_headline_tells_malloc_from_mapped_address_space() -> None:
    recordings = []
    for seed, mapped in ((1, 2), (2, 900)):
        process = Process(20, seed)
        process.add(native_stack("churn"), Churn(300, 9000, 0.5))
        process.add((native("mmap", ""), native("reserve")), Leak(1, mapped << 20), kind=MMAP)
        recordings.append(process.record(exact=True))
    result = diff(*recordings)
    head = headline(result)
    assert head.startswith("Live malloc memory: no change beyond chance (")
    assert "Mapped address space grew by " in head
    value = diff_json(result)
    for side in ("old", "new", "change"):
        whole = value["live_bytes"][side]["estimate"]
        parts = [value[kind][side]["estimate"] for kind in ("malloc_bytes", "mapped_bytes")]
        assert whole == pytest.approx(sum(parts), abs=1)


@pytest.fixture(scope="module")
def builds(jres: dict[int, Path], probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """clean.offheap and leaking.offheap: 25 s of two builds of one program, with default options."""
    needs.jre(17, 17 in jres)
    home = next(home for version, home in sorted(jdk_homes().items()) if version >= 11)
    folder = tmp_path_factory.mktemp("builds")
    with ExitStack() as stack:
        running = []
        for name, keeps in (("clean", "false"), ("leaking", "true")):
            (folder / name).mkdir()
            source = folder / name / "Orders.java"
            source.write_text(SOURCE.read_text().replace("KEEPS = false", f"KEEPS = {keeps}"))
            command = [str(home / "bin" / "javac"), "--release", "11", "-d", str(folder / name), str(source)]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            java = [str(jres[17]), "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(folder / name), "Orders", "25"]
            running.append(
                stack.enter_context(Running(offheap("run", "-o", folder / f"{name}.offheap", "--", *java)))
            )
        for each in running:
            assert each.process.wait(90) == 0, each.errors
    return folder


@pytest.mark.parametrize("options", [(), ("--per", "second")])
def test_two_builds_of_a_real_program(builds: Path, options: tuple[str, ...]) -> None:
    done = warm("diff", "clean.offheap", "leaking.offheap", "--json", *options, cwd=builds)
    assert done.returncode == 0, done.stderr
    value = standard_json.loads(done.stdout)
    first = value["sites"][0]
    assert first["blamed"]["name"] == KEPT
    assert first["significant"]
    assert first["growth"]["change"] == "leaks"
    assert value["grows"]["leaks"] == 1
    assert first["growth"]["verdicts"]["new"] == "leak"
    # 1 in 8 of 250 orders a second, 7 KB each, however long the machine takes for 4 ms.
    assert first["growth"]["bytes"]["change"]["low"] > 10_000


def test_a_real_build_beside_itself_leaks_nothing_new(builds: Path) -> None:
    leaking = load(builds / "leaking.offheap")
    assert diff(leaking, leaking).grows == {}
