"""The verdicts on Java objects of real JVMs: the zoo's programs, and a leak under much load."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.command_line import offheap
from harness.jvms import heap_cases, java_homes
from harness.jvms.collectors import COLLECTORS
from harness.jvms.heap_cases import LEAKING, PROGRAMS, Recorded, Setting
from harness.jvms.zoo import Zoo
from harness.jvms.zoo_cases import assert_names
from harness.measuring import document

DEFAULT = ("--java-heap",)
LOADED = "AllocationLoad.leak"


@dataclass(frozen=True)
class Case:
    program: str
    setting: Setting

    def __str__(self) -> str:
        return f"{self.program} {self.setting}"


@dataclass(frozen=True)
class Outcome:
    """first    whether the first suspect of the Java heap is the leak, with its call path
    verdict  that on the first suspect; "" without one
    accused  the innermost frames of suspects with the verdict "leak", without the leak's
    """

    case: Case
    first: bool
    verdict: str
    accused: tuple[str, ...]


def cases(runs: int, healthy_runs: int, seed: int) -> list[Case]:
    """Each program that leaks, and each healthy one, so many times, in the settings by turns."""
    settings = [setting for setting in heap_cases.settings() if setting.present()]
    turns = range(max(runs, healthy_runs))
    names = [
        name for turn in turns for name in PROGRAMS if turn < (runs if name in LEAKING else healthy_runs)
    ]
    return [Case(name, settings[(seed + i) % len(settings)]) for i, name in enumerate(names)]


def run(case: Case, zoo: Zoo, seconds: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="offheap-heap-") as folder:
        recorded = heap_cases.record(
            PROGRAMS[case.program], case.setting, zoo, Path(folder), seconds=seconds, options=DEFAULT
        )
    return judge(case, recorded)


def judge(case: Case, recorded: Recorded) -> Outcome:
    stack = PROGRAMS[case.program].java_stack
    suspects = recorded.java_heap["suspects"]
    # One object of the application brings others with it, such as the entries of a map: they leak as well.
    others = [one for one in recorded.suspects("leak") if not stack or not shares(stack, one)]
    accused = tuple(f"{one['stack'][0]['name']} {one['blamed']['name']}" for one in others)
    first = bool(suspects) and bool(stack) and _names(stack, suspects[0])
    return Outcome(case, first, suspects[0]["verdict"] if suspects else "", accused)


def shares(stack: Sequence[str], suspect: dict[str, Any]) -> bool:
    """Whether the suspect is of the program that leaks: one of its methods called."""
    main = stack[-1].rpartition(".")[0].partition("$")[0]
    return any(frame["name"].startswith(main) for frame in suspect["stack"])


def _names(stack: Sequence[str], suspect: dict[str, Any]) -> bool:
    try:
        assert_names(stack, suspect["stack"])
    except AssertionError:
        return False
    return True


def table(outcomes: Sequence[Outcome]) -> list[str]:
    rows = []
    for name in PROGRAMS:
        its = [one for one in outcomes if one.case.program == name]
        if not its:
            continue
        accused = Counter(who for one in its for who in one.accused)
        first = sum(one.first for one in its)
        verdict = sum(one.first and one.verdict == "leak" for one in its)
        leaks = name in LEAKING
        found = [str(first), str(verdict)] if leaks else ["", ""]
        said = ", ".join(f"{who} ({count})" for who, count in accused.most_common())
        rows.append([name, "yes" if leaks else "no", str(len(its)), *found, said or "none"])
    header = ["program", "leaks", "runs", "first, whole path", "verdict `leak`", "wrongly accused"]
    return document.table(header, rows)


@dataclass(frozen=True)
class Hidden:
    """A leak of `leak` bytes a second under a gigabyte a second: its rank and verdict after `seconds`."""

    collector: str
    seconds: float
    rank: int  # 0: no suspect
    verdict: str
    growth: tuple[float, float]  # bytes a second, the interval


def hidden(collector: str, jdk: int, classes: Path, leak: float, seconds: float) -> Hidden:
    """Attaches to a program under load for so long, and collects at the end, as docs/java-heap.md says."""
    java = java_homes.java(jdk)
    command = [str(java), "-Xmx2g", "-Xms2g", *COLLECTORS[collector], "-cp", str(classes)]
    command += ["AllocationLoad", "1000", "5", "100000", str(leak)]
    with (
        tempfile.TemporaryDirectory(prefix="offheap-hidden-") as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stdin
            assert process.stdout
            first = re.fullmatch(r"pid (\d+)\n", process.stdout.readline())
            assert first
            assert process.stdout.readline() == "warm\n"
            process.stdin.write("\n")
            process.stdin.flush()
            time.sleep(1)
            output = Path(folder) / "hidden.offheap"
            options = [*DEFAULT, "--duration", f"{seconds:.0f}s", "--gc", "-o", str(output)]
            attach = offheap("attach", first[1], *options)
            done = subprocess.run(attach, capture_output=True, text=True, timeout=seconds + 120)
            assert done.returncode == 0, done.stderr
            found = heap_cases.ask("leaks", output, "--all", "--json")["java_heap"]["suspects"]
        finally:
            process.kill()
    for one in found:
        if any(frame["name"] == LOADED for frame in one["stack"]):
            growth = one["growth_bytes_per_second"]
            return Hidden(collector, seconds, one["rank"], one["verdict"], (growth["low"], growth["high"]))
    return Hidden(collector, seconds, 0, "not seen", (0.0, 0.0))


def hidden_table(runs: Sequence[Hidden]) -> list[str]:
    rows = []
    for collector in dict.fromkeys(one.collector for one in runs):
        its = [one for one in runs if one.collector == collector]
        verdicts = Counter(one.verdict for one in its)
        said = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
        rows.append([collector, str(len(its)), str(sum(one.rank == 1 for one in its)), said])
    return document.table(["collector", "runs", "first suspect", "verdicts"], rows)
