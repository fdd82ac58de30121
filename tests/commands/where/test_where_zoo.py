"""The verdicts of `offheap where --watch` on some zoo programs; docs/where.md has those of all programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import needs
from harness.command_line import offheap
from harness.jvms import zoo as zoo_programs
from harness.jvms.zoo import Running, Zoo

PROGRAMS = zoo_programs.programs()
SECONDS = 24
# A few programs, one for each JDK; the benchmark runs the others.
CASES = [("class-loaders", 11), ("threads", 17), ("java-heap", 21), ("jni-mmap", 25)]


@pytest.fixture(scope="module")
def watched(jres: dict[int, Path], zoo: Zoo) -> Iterator[Callable[[str, int], dict[str, Any]]]:
    """watched(program, version): the --json output; all are watched at the same time, as they mostly wait."""

    def watch(name: str, version: int) -> dict[str, Any]:
        command = zoo.command(PROGRAMS[name], jres[version])
        command.insert(1, "-XX:NativeMemoryTracking=summary")
        with Running(command) as running:
            running.truths(1)
            asked = offheap("where", str(running.pid), "--watch", f"{SECONDS}s", "--json")
            done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    with ThreadPoolExecutor(len(CASES)) as executor:
        futures: dict[tuple[str, int], Future[dict[str, Any]]] = {
            case: executor.submit(watch, *case) for case in CASES if case[1] in jres
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


def test_every_program_has_a_verdict() -> None:
    assert all(program.where for program in PROGRAMS.values())
