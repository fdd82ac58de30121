"""What `offheap where --watch` says of some of the zoo; benchmarks/where_zoo.py asks about all, and often."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import needs
import zoo as zoo_programs
from zoo import Running, Zoo, offheap

PROGRAMS = zoo_programs.programs()
SECONDS = 24
# A few, one for each JDK; the benchmark has the rest.
CASES = [
    ("class-loaders", 11),
    ("threads", 17),
    ("java-heap", 21),
    ("jni-mmap", 25),
    ("direct-buffers", 11),
    ("nio-cache", 25),
]
YOUNG = ("code-cache", 17)
UNTRACKED = ("direct-buffers", "nio-cache")  # the JDK's own counters tell them


@pytest.fixture(scope="module")
def watched(jres: dict[int, Path], zoo: Zoo) -> Iterator[Callable[[str, int], dict[str, Any]]]:
    """watched(program, version): what --json said; all are watched at the same time, as they mostly wait."""

    def watch(name: str, version: int) -> dict[str, Any]:
        command = zoo.command(PROGRAMS[name], jres[version])
        if name not in UNTRACKED:
            command.insert(1, "-XX:NativeMemoryTracking=summary")
        with Running(command) as running:
            running.truths(1)
            asked = offheap("where", str(running.pid), "--watch", f"{SECONDS}s", "--json")
            done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    with ThreadPoolExecutor(len(CASES) + 1) as executor:
        futures: dict[tuple[str, int], Future[dict[str, Any]]] = {
            case: executor.submit(watch, *case) for case in (*CASES, YOUNG) if case[1] in jres
        }

        def result(name: str, version: int) -> dict[str, Any]:
            needs.jre(version, (name, version) in futures)
            return futures[name, version].result()

        yield result


@pytest.mark.parametrize(("name", "version"), CASES)
def test_the_verdict_is_right(name: str, version: int, watched: Callable[[str, int], dict[str, Any]]) -> None:
    document = watched(name, version)
    verdict = document["verdict"]
    assert verdict["kind"] in PROGRAMS[name].where, verdict
    grown = [one["name"] for one in verdict["grown"]]
    if name == "threads":
        assert grown[0] == "mailer-#"
    if name == "class-loaders":
        assert grown[0] == "leaks.PluginLoader"


def test_a_young_process_is_warming_up(watched: Callable[[str, int], dict[str, Any]]) -> None:
    """Its code cache does leak, and nobody can tell that from a JVM that still compiles its classes."""
    document = watched(*YOUNG)
    verdict = document["verdict"]
    assert verdict["kind"] == "cannot tell yet", verdict
    assert "still warming up" in verdict["why"]
    assert verdict["next"][0].startswith("sleep ")
    assert verdict["needs_seconds"] > 240
    assert document["watch"]["gauges"]["age"][-1] < 300


def test_every_program_has_a_verdict() -> None:
    assert all(program.where for program in PROGRAMS.values())
