"""Verdicts on simulated processes of known behaviour, hundreds of seeded runs; false alarms are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.simulation import (
    MALLOC,
    Behaviour,
    Born,
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
    java,
    jvm,
    native,
    native_stack,
)
from offheap.analysis.leaks.leaks import suspects
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.sites.sites import table
from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.verdicts import evidence
from offheap.analysis.verdicts.site_history import histories
from offheap.recording.model import Frame

RUNS = 20
APPLICATION = inflater("com.example.Shop.serve", "com.example.Main.main")
CLASSES = (
    MALLOC,
    jvm("os::malloc(unsigned long, MEMFLAGS)"),
    jvm("SymbolTable::add(char const*)"),
    jvm("JVM_DefineClass"),
    native("Java_java_lang_ClassLoader_defineClass1", "libjava.so"),
    java("java.lang.ClassLoader.defineClass1"),
    java("com.example.Main.main"),
)

LEAKS: dict[str, tuple[Sequence[Frame], tuple[Behaviour, ...]]] = {
    "under churn of its own site": (APPLICATION, (Leak(200, 7160), Churn(300, 7160, 0.05))),
    "under forty times its own in churn": (APPLICATION, (Leak(50, 40_000), Churn(2000, 40_000, 0.1))),
    "that starts late": (APPLICATION, (Leak(200, 7160, start=6),)),
    "after a start-up": (APPLICATION, (WarmUp(50, 40_000, 0.5), Leak(200, 7160, start=4))),
    "of mappings": (native_stack("map_segment"), (Leak(2, 1 << 20),)),
    # HotSpot's own memory grows without a leak, so that a leak verdict needs more samples.
    "of the JVM's own, straight": (compiler(), (Leak(400, 32_768),)),
}
HEALTHY: dict[str, tuple[Sequence[Frame], tuple[Behaviour, ...]]] = {
    "churn": (APPLICATION, (Churn(1000, 7160, 0.2),)),
    "long-lived churn": (APPLICATION, (Churn(200, 40_000, 3),)),
    "cache that evicts any": (APPLICATION, (Cache(500, 20_000, 1000),)),
    "cache that evicts the oldest": (APPLICATION, (Cache(500, 20_000, 1000, "first"),)),
    "cache that fills and stays": (APPLICATION, (Cache(500, 20_000, 1000, "closed"),)),
    "start-up": (APPLICATION, (WarmUp(300, 20_000, 1.5),)),
    "compiled code": (compiler(), (JustInTime(800, 32_768),)),
    "compilation": (compiler(), (JustInTime(300, 32_768), Churn(500, 32_768, 0.1))),
    "classes": (CLASSES, (JustInTime(300, 20_000),)),
    "thread pools": (APPLICATION, (Generations(30, 1 << 20, 5),)),
    "slow thread pools": (APPLICATION, (Generations(30, 1 << 20, 9),)),
    "cleaners": (APPLICATION, (Sawtooth(200, 20_000, 4),)),
    "rare cleaners": (APPLICATION, (Sawtooth(200, 20_000, 11),)),
}


def judge(
    stack: Sequence[Frame],
    behaviours: tuple[Behaviour, ...],
    seed: int,
    *,
    duration: float = 20,
    exact: bool = False,
    snapshots: int | None = None,
) -> Suspect | None:
    process = Process(duration, seed)
    process.add(stack, *behaviours)
    found = suspects(process.record(exact=exact, snapshots=snapshots, seed=seed))
    return found[0] if found else None


def verdicts(
    case: tuple[Sequence[Frame], tuple[Behaviour, ...]],
    runs: int = RUNS,
    *,
    duration: float = 20,
    exact: bool = False,
    snapshots: int | None = None,
) -> Counter[str]:
    result: Counter[str] = Counter()
    for seed in range(runs):
        suspect = judge(*case, seed, duration=duration, exact=exact, snapshots=snapshots)
        result[suspect.verdict if suspect else "none"] += 1
    return result


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_called_a_leak(name: str) -> None:
    counts = verdicts(LEAKS[name])
    assert counts["leak"] >= 0.85 * RUNS, counts
    assert counts["leak"] + counts["growing"] + counts["cannot tell yet"] + counts["steady"] == RUNS, counts


def test_what_grows_as_a_process_starts_is_doubted() -> None:
    """A start-up of a few blocks looks like a leak, and most start-ups are none."""
    young, old = [], []
    for seed in range(200):
        process = Process(10, seed)
        process.add(APPLICATION, WarmUp(60, 40_000, 4))
        started = process.record(interval=65_536, seed=seed)
        attached = replace(started, info=replace(started.info, process_age=60.0))
        young += [suspect for suspect in suspects(started) if suspect.verdict == "leak"]
        old += [suspect for suspect in suspects(attached) if suspect.verdict == "leak"]
    assert len(old) > 20, "the case is an easy one"
    assert len(young) <= len(old) / 4
    assert all(suspect.confidence <= 0.8 for suspect in young)
    process = Process(10, 1)
    process.add(APPLICATION, Leak(2000, 7160))
    (plain,) = suspects(process.record(interval=65_536))
    assert (plain.verdict, round(plain.confidence, 2)) == ("leak", 0.8)


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_recorded_exactly_is_called_a_leak(name: str) -> None:
    counts = verdicts(LEAKS[name], 10, exact=True)
    assert counts["leak"] >= 8, counts
    assert counts["leak"] + counts["growing"] == 10, counts


@pytest.mark.parametrize("name", [name for name in LEAKS if "JVM" not in name])
def test_births_alone_show_a_leak(name: str) -> None:
    """A bare live file, one snapshot."""
    counts = verdicts(LEAKS[name], snapshots=1)
    assert counts["leak"] >= 0.75 * RUNS, counts


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_site_is_not_called_a_leak(name: str) -> None:
    counts = verdicts(HEALTHY[name])
    assert counts["leak"] == 0, counts
    assert counts["growing"] <= 0.15 * RUNS, counts


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_site_recorded_exactly_is_not_called_a_leak(name: str) -> None:
    counts = verdicts(HEALTHY[name], 10, exact=True)
    assert counts["leak"] == 0, counts


@pytest.mark.parametrize("name", [name for name in HEALTHY if name != "long-lived churn"])
def test_births_alone_accuse_no_healthy_site(name: str) -> None:
    counts = verdicts(HEALTHY[name], snapshots=1)
    assert counts["leak"] == 0, counts


def test_births_alone_may_take_long_lived_blocks_for_a_leak() -> None:
    """The documented limit of a bare live file: it has the number of frees, but not their times."""
    counts = verdicts(HEALTHY["long-lived churn"], snapshots=1)
    assert counts["leak"] <= 0.25 * RUNS, counts


def test_births_alone_of_blocks_that_die_come_ever_faster() -> None:
    """More of the young blocks are alive: with a fine interval, a live file tells that from a leak."""
    accused = 0
    for seed in range(RUNS):
        process = Process(30, seed)
        process.add(APPLICATION, Churn(20, 20_000, 10))
        accused += suspects(process.record(interval=65_536, snapshots=1))[0].verdict == "leak"
    assert accused <= 0.2 * RUNS


@pytest.mark.parametrize("name", ["under churn of its own site", "that starts late", "of mappings"])
def test_a_leak_is_found_with_few_snapshots(name: str) -> None:
    """A recorder on a busy machine takes fewer snapshots than it should."""
    stack, (leak, *_) = LEAKS[name]
    assert verdicts((stack, (leak,)), snapshots=7)["leak"] >= 0.8 * RUNS


@pytest.mark.parametrize("name", HEALTHY)
def test_few_snapshots_accuse_no_healthy_site(name: str) -> None:
    assert verdicts(HEALTHY[name], snapshots=7)["leak"] <= 0.05 * RUNS


def short(duration: float, seed: int, entry: str) -> tuple[Process, int]:
    """A leak of 1.4 MB/s beside churn of the same native function by another caller, in a busy JVM."""
    process = Process(duration, seed)
    start = 1.0 if entry == "run" else 0.0
    leak = process.add(
        inflater("com.example.Leak.open", "com.example.Main.main"), UnevenLeak(200, 7160, start=start)
    )
    process.add(inflater("com.example.Zip.churn", "com.example.Main.main"), Churn(1000, 7160, 0.05))
    process.add(compiler(), Churn(500, 32_768, 0.1))
    if entry == "run":
        process.add(compiler("C2Compiler::initialize()"), JustInTime(300, 32_768))
        process.add(CLASSES, JustInTime(300, 20_000))
        process.add(inflater("com.example.Start.up", "com.example.Main.main"), WarmUp(150, 20_000, 0.7))
    return process, leak


@pytest.mark.parametrize("entry", ["run", "attach"])
@pytest.mark.parametrize(("duration", "least"), [(10, 19), (15, 20), (20, 20), (30, 20)])
def test_a_short_recording_shows_the_leak_first(duration: float, least: int, entry: str) -> None:
    first = suspicious = 0
    for seed in range(20):
        process, leak = short(duration, seed, entry)
        worst = suspects(process.record())[0]
        first += leak in worst.site.stacks
        suspicious += worst.verdict in ("leak", "growing")
    assert first >= least
    assert suspicious >= least


@pytest.mark.parametrize("entry", ["run", "attach"])
@pytest.mark.parametrize("snapshots", [1, 7])
def test_a_short_recording_with_few_snapshots_shows_the_leak_first(snapshots: int, entry: str) -> None:
    for seed in range(20):
        process, leak = short(20, seed, entry)
        worst = suspects(process.record(snapshots=snapshots))[0]
        assert leak in worst.site.stacks
        assert worst.verdict in ("leak", "growing")


def test_a_site_that_frees_a_fifth_at_once_leaks_the_rest_and_sessions_do_not() -> None:
    """The leak's blocks that are alive after the first third stay; as many sessions are alive then."""
    leaks = sessions = 0
    for seed in range(40):
        process = Process(20, seed)
        process.add(APPLICATION, UnevenLeak(200, 7160, spread=0.2), Churn(50, 7160, 0.005))
        leaks += suspects(process.record())[0].verdict == "leak"
        process = Process(20, seed)
        process.add(APPLICATION, Churn(250, 7160, 12.0))
        sessions += suspects(process.record())[0].verdict == "leak"
    assert leaks >= 36
    assert sessions <= 2


def test_sessions_beside_blocks_that_are_freed_at_once_are_no_leak() -> None:
    """Half of the births die young, the other half after a third of the time: no one lifetime fits both."""
    verdicts: Counter[str] = Counter()
    for seed in range(30):
        process = Process(60, seed)
        process.add(APPLICATION, Churn(20, 10_923, 18), Churn(20, 10_923, 0.01))
        recording = process.record(interval=131_072)
        grown_up = replace(recording, info=replace(recording.info, process_age=600.0))
        verdicts[suspects(grown_up)[0].verdict] += 1
    assert verdicts["leak"] <= 1, verdicts


def test_many_births_at_first_are_no_startup_while_others_follow() -> None:
    """17 of 25 are in the first third, by chance: none is freed, and more births follow."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        early, middle, late = (
            random.uniform(0.1, 6.6, 17),
            random.uniform(6.7, 13, 4),
            random.uniform(13.5, 20, 4),
        )
        process = Process(20, seed)
        process.add(APPLICATION, Born(tuple(np.sort(np.concatenate((early, middle, late)))), 4 << 20))
        (suspect,) = suspects(process.record())
        assert suspect.verdict in ("leak", "growing"), (seed, suspect.why)


def test_few_births_at_first_are_no_blocks_that_were_freed() -> None:
    """An attach may delay a busy program: the few blocks born in the first third are all alive."""
    for seed in range(20):
        process = Process(20, seed)
        process.add(APPLICATION, Leak(0.3, 4 << 20), Leak(12, 4 << 20, start=6.7))
        (suspect,) = suspects(process.record())
        assert suspect.verdict == "leak", (seed, suspect.why)


def test_a_start_up_after_which_nothing_comes_is_a_startup() -> None:
    process = Process(20, 1)
    process.add(APPLICATION, Born(tuple(0.3 + 0.1 * n for n in range(25)), 2 << 20))
    (suspect,) = suspects(process.record())
    assert suspect.verdict == "startup"


@pytest.mark.parametrize("duration", [10, 120, 7200])
def test_verdicts_hold_for_seconds_and_for_hours(duration: float) -> None:
    scale = 20 / duration
    leak = (APPLICATION, (Leak(200 * scale, 40_000), Churn(300 * scale, 40_000, 0.05 / scale)))
    churn = (APPLICATION, (Churn(500 * scale, 40_000, 0.3 / scale),))
    assert verdicts(leak, 20, duration=duration)["leak"] >= 18
    assert verdicts(churn, 20, duration=duration)["leak"] == 0


def test_coarser_sampling_of_blocks_of_any_size_is_no_slowing() -> None:
    """An object of one large block and some small ones: only of the small ones fewer samples are taken."""

    def coarser(times: Floats, sizes: Floats) -> Floats:
        return np.where(times < 30, 32_768.0, 524_288.0) + 0 * sizes

    verdicts: Counter[str] = Counter()
    for seed in range(RUNS):
        process = Process(60, seed)
        process.add(APPLICATION, Leak(6, 1 << 20), Leak(6, 262_144), Leak(100, 8192), Churn(6, 1 << 20, 0.2))
        suspect = suspects(process.record(interval=coarser))[0]
        verdicts[suspect.verdict] += 1
        growth = suspect.growth_bytes_per_second
        assert growth.estimate == pytest.approx(6 * (1 << 20) + 6 * 262_144 + 100 * 8192, rel=0.5)
    assert verdicts["leak"] >= 0.9 * RUNS, verdicts


def test_false_alarms_among_many_sites_are_rare() -> None:
    """60 sites of every healthy kind in each of 15 processes: 900 verdicts."""
    cases = list(HEALTHY.values())
    alarms = judged = 0
    for seed in range(15):
        process = Process(20, seed)
        for index in range(60):
            stack, behaviours = cases[index % len(cases)]
            process.add((*stack, java(f"com.example.Caller{index}.call")), *behaviours)
        found = suspects(process.record(seed=seed))
        judged += len(found)
        alarms += sum(suspect.verdict == "leak" for suspect in found)
    assert judged >= 850
    assert alarms <= judged / 200


def test_growth_interval_covers_the_true_rate() -> None:
    covered = 0
    for seed in range(100):
        suspect = judge(APPLICATION, (Leak(200, 7160),), seed)
        assert suspect is not None
        growth = suspect.growth_bytes_per_second
        covered += growth.low <= 200 * 7160 <= growth.high
    assert covered >= 90


def test_a_leak_older_than_the_attach_is_a_leak_all_the_same() -> None:
    """Only blocks born since the attach are visible: the leak begins at 0."""
    suspect = judge(APPLICATION, (Leak(200, 40_000, start=0),), 1, duration=10)
    assert suspect is not None
    assert suspect.verdict == "leak"


def test_a_live_set_older_than_the_last_snapshot_hides_no_leak() -> None:
    """A killed recorder writes a large live set last some seconds before its last snapshot."""
    for seed in range(10):
        process = Process(20, seed)
        process.add(APPLICATION, Leak(200, 40_000), Churn(100, 40_000, 0.5))
        whole = process.record()
        # Blocks that lived at that time and are freed later would be in it as well: a few, left out here.
        old = whole.live[whole.live["birth"] <= 15]
        (suspect,) = suspects(replace(whole, live=old, info=replace(whole.info, live_time=15.0)))
        assert suspect.verdict == "leak"
        growth = suspect.growth_bytes_per_second
        assert growth.low <= 200 * 40_000 <= growth.high
        # The time is necessary: without it, no site seems to grow until the end.
        (unaware,) = suspects(replace(whole, live=old))
        assert unaware.growth_bytes_per_second.estimate < 0.75 * growth.estimate


def test_what_was_freed_is_freed() -> None:
    process = Process(20, 1)
    process.add(APPLICATION, Churn(500, 40_000, 1e-4))
    (suspect,) = suspects(process.record(exact=True))
    assert suspect.verdict == "freed"
    assert suspect.growth_bytes_per_second.estimate == 0


def test_little_data_gives_no_verdict() -> None:
    process = Process(2, 1)
    process.add(APPLICATION, Leak(100, 40_000))
    (suspect,) = suspects(process.record())
    assert suspect.verdict == "cannot tell yet"
    assert suspect.confidence == 0


def test_an_unknown_age_is_past_the_start_up_and_earns_no_bonus() -> None:
    """The probability is a number, that of a process whose age changes it in neither direction."""
    process = Process(60, 3)
    process.add(APPLICATION, Leak(20, 7160))
    recording = process.record(exact=True)
    sites = table(recording)
    history = histories(recording, sites.grouping)
    none = np.zeros(len(sites), np.bool_)
    unknown, grown, old = (
        evidence.even(history, history.first, history.end, none, age=age) for age in (np.inf, 60.0, 6000.0)
    )
    assert np.isfinite(unknown).all()
    assert unknown.tolist() == grown.tolist()
    assert (unknown < old).any()


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_in_a_process_of_unknown_age_is_a_leak(name: str) -> None:
    for seed in range(5):
        process = Process(60, seed)
        stack, behaviours = LEAKS[name]
        process.add(stack, *behaviours)
        recording = process.record(seed=seed)
        old = replace(recording, info=replace(recording.info, process_age=np.inf))
        assert suspects(old)[0].verdict == "leak"
