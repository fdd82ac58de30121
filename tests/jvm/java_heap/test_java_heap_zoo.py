"""Programs that hold Java objects, on every JDK and collector, recorded with --java-heap: found and true?

Each program has one setting of JDK, collector and way; OFFHEAP_SEED chooses which.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.collectors import COLLECTORS
from harness.jvms.heap_cases import (
    HEALTHY,
    JDKS,
    LEAKING,
    PROGRAMS,
    WAYS,
    Recorded,
    Setting,
    ask,
    of_place,
    record,
    settings,
)
from harness.jvms.zoo import Zoo
from harness.jvms.zoo_cases import assert_names
from harness.plugins.rotation import one_a_row

# A recording mostly waits, so several at once cost little and save minutes.
AT_ONCE = 3
ALL = [*LEAKING, *HEALTHY]
CASES = one_a_row(ALL, settings())
LONGER_SECONDS = 60.0
# The threads that allocate what stays: of the other programs that is the main thread.
THREADS = {"thread-locals": r"pool-1-thread-[1-4]"}
# An attach finds the kernel's names of threads; the main thread's is that of the launcher.
MAIN = {"run": "main", "attach": "main|java"}
WITH_LEAK = [case for case in CASES if case.values[0] in LEAKING]
SCALED = [case for case in CASES if case.values[0] == "static-map"]
# The JVM's own objects from before the recording, and what a collector rounds up to.
UNSAMPLED_BYTES = 8 << 20


@pytest.fixture(scope="module")
def recorded(
    request: pytest.FixtureRequest,
    jres: dict[int, Path],
    zoo: Zoo,
    probe_library: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, Setting], Recorded]]:
    """recorded(program, setting): all that the selected tests need, a few at a time, each once."""
    folder = tmp_path_factory.mktemp("java-heap")
    wanted = _wanted(request.session.items)
    with ThreadPoolExecutor(AT_ONCE) as executor:
        futures: dict[tuple[str, Setting], Future[Recorded]] = {
            (name, setting): executor.submit(record, PROGRAMS[name], setting, zoo, folder)
            for name, setting in wanted
            if setting.jdk in jres and setting.present()
        }

        def result(name: str, setting: Setting) -> Recorded:
            if (name, setting) not in futures:
                needs.skip(f"a JRE {setting.jdk} with {setting.collector} in .jres", needs.JRES)
            done = futures[name, setting].result()
            if name in LEAKING and _undecided(done) and (name, setting) not in longer:
                # Many JVMs share two CPUs with their host: a program may stand still for longer than it runs.
                print(f"{name} {setting}: undecided, recorded for a minute")
                longer.add((name, setting))
                again = tmp_path_factory.mktemp("longer")
                futures[name, setting] = executor.submit(
                    record, PROGRAMS[name], setting, zoo, again, seconds=LONGER_SECONDS
                )
            return futures[name, setting].result()

        longer: set[tuple[str, Setting]] = set()
        yield result
        for future in futures.values():
            future.cancel()


def _undecided(recorded: Recorded) -> bool:
    """Whether the verdict on the first suspect is "growing" or "cannot tell yet"."""
    suspects = recorded.java_heap["suspects"]
    return bool(suspects) and suspects[0]["verdict"] in ("growing", "cannot tell yet")


def _wanted(items: list[pytest.Item]) -> list[tuple[str, Setting]]:
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    found = [(one["name"], one["setting"]) for one in parameters if isinstance(one.get("setting"), Setting)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("name", "setting"), CASES, ids=str)
def test_the_leak_comes_first_and_a_healthy_program_is_not_accused(
    name: str, setting: Setting, recorded: Callable[[str, Setting], Recorded]
) -> None:
    result = recorded(name, setting)
    accused = result.suspects("leak")
    if name in HEALTHY:
        assert not accused, json.dumps(accused, indent=1)
        return
    first = result.java_heap["suspects"][0]
    assert_names(PROGRAMS[name].java_stack, first["stack"])
    assert first["stack"][0]["kind"] == "class"
    assert first["kind"] == "java"
    assert first["verdict"] == "leak", first


@pytest.mark.parametrize(("name", "setting"), WITH_LEAK, ids=str)
def test_the_leak_names_the_threads_that_allocated_it(
    name: str, setting: Setting, recorded: Callable[[str, Setting], Recorded]
) -> None:
    result = recorded(name, setting)
    expected = THREADS.get(name, MAIN[setting.way])
    threads = result.java_heap["suspects"][0]["threads"]
    assert threads
    assert all(re.fullmatch(expected, thread) for thread in threads), threads


@pytest.mark.parametrize(("name", "setting"), SCALED, ids=str)
def test_scaled_sites_sum_to_the_heap_in_use(
    name: str, setting: Setting, recorded: Callable[[str, Setting], Recorded]
) -> None:
    result = recorded(name, setting)
    books = result.java_heap["books"]
    factor = books["heap_bytes"] / books["estimate"]["estimate"]
    found = ask("leaks", result.path, "--all", "--scale-to-heap", "--json")["java_heap"]
    assert found["scaled"] == pytest.approx(factor, rel=1e-3)
    sites = [one["live_bytes"]["estimate"] for one in found["suspects"]]
    assert sum(sites) == pytest.approx(books["heap_bytes"], abs=len(sites))
    for scaled, plain in zip(found["suspects"], result.java_heap["suspects"], strict=True):
        for bound in ("low", "estimate", "high"):
            due = plain["live_bytes"][bound] * factor
            assert scaled["live_bytes"][bound] == pytest.approx(due, rel=1e-6, abs=factor + 1)
    summed = ask("summary", result.path, "--top", "100000", "--scale-to-heap", "--json")["java_heap"]
    sites = [one["live_bytes"]["estimate"] for one in summed["sites"]]
    assert sum(sites) == pytest.approx(books["heap_bytes"], abs=len(sites))


@pytest.mark.parametrize(("name", "setting"), CASES, ids=str)
def test_the_books_close(name: str, setting: Setting, recorded: Callable[[str, Setting], Recorded]) -> None:
    """Every program is recorded from its start, or holds nothing before: all but the JVM's own is sampled."""
    result = recorded(name, setting)
    books, survivors = result.java_heap["books"], result.java_heap["survivors"]["bytes"]
    assert books["agrees"], books
    assert abs(books["heap_bytes"] - result.used) < UNSAMPLED_BYTES, (books, result.used)
    held = sum(one.bytes for one in result.held)
    # HotSpot samples no object in what is left of each thread's buffer (TLAB) when the recording begins.
    if setting.way == "run":
        assert survivors["high"] > held
        # ZGC counts before it moves objects off fragmented pages; the program reads its heap after that.
        in_use = result.used if setting.collector == "ZGC" else books["heap_bytes"]
        assert in_use - survivors["high"] < UNSAMPLED_BYTES, (books, result.used)


def test_intervals_cover_what_the_programs_counted(
    request: pytest.FixtureRequest, recorded: Callable[[str, Setting], Recorded]
) -> None:
    cases = _wanted(request.session.items)
    if len(cases) < len(ALL):
        needs.skip("the runs of the whole zoo", needs.WHOLE)
    missed, intervals = [], 0
    for name, setting in cases:
        if not setting.present():
            continue
        result = recorded(name, setting)
        # Most of what an attach finds alive was allocated in its time, but not all.
        for held in result.held if setting.way == "run" else []:
            site = of_place(result, held)
            assert site, f"{name}: no site for {held}"
            intervals += 1
            bounds = site["live_bytes"]
            if not bounds["low"] <= held.bytes <= bounds["high"]:
                missed.append(f"{name} {setting}: {bounds}, truth {held}")
    # Three of eight intervals of 95 % each miss in half a per cent of all test runs.
    assert len(missed) <= max(2, intervals // 8), missed


def test_both_sides_of_a_direct_buffer_are_one_story(
    zoo: Zoo, jres: dict[int, Path], probe_library: Path, tmp_path: Path
) -> None:
    """The connections leak Java objects, and the native memory of their buffers by the same constructor."""
    needs.jre(21, 21 in jres)
    program = PROGRAMS["connections"]
    # A machine with uneven load slows the program down: 20 seconds of that look like a cache that fills.
    result = record(program, Setting(21, "G1", "run"), zoo, tmp_path, seconds=LONGER_SECONDS)
    native, java = result.leaks["suspects"][0], result.java_heap["suspects"][0]
    assert native["verdict"] == java["verdict"] == "leak"
    assert_names(program.stack, native["stack"])
    assert_names(program.java_stack, java["stack"])
    assert native["blamed"]["name"] == java["blamed"]["name"]


def test_every_program_meets_every_jdk_collector_and_way() -> None:
    found = settings()
    assert len(set(found)) == len(found) == len(JDKS) * len(COLLECTORS) * len(WAYS)
    assert not set(LEAKING) & set(HEALTHY)
