"""The verdicts on real JVMs: leaks of known rate and healthy programs, judged as they run.

A JVM runs under `offheap run`, and `offheap leaks` is asked about the recording after one and after five
minutes, while it grows. Several JVMs run at once: they mostly sleep.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import command_line
from harness.evaluation import simulated_verdicts
from harness.evaluation.simulated_verdicts import Said
from harness.jvms import churn_jvm, java_homes
from harness.jvms import zoo as zoo_programs
from harness.measuring import document
from harness.measuring.rates import format_rate
from harness.paths import ROOT
from offheap.quantities import format_duration

READINGS = (60.0, 300.0)
RATES = (1e3, 1e4, 1e5, 1e6, 1e7)  # bytes a second leaked
CHURNS = (0.0, 1e7, 1e8)  # bytes a second taken and given back by the same call path
JDKS = (11, 17, 21, 25)
MODES = {"512 KiB": ["--interval", "512KiB"], "1 % of CPU": ["--budget", "1%"], "exact": ["--exact"]}
HEALTHY = ("churn", "cache", "thread-pools", "warm-up")
# What zlib and the JDK take for one Inflater that has not inflated yet.
INFLATER = 7272
# The frames that make a stack the leak's: the application's, and the method that it takes memory by.
FRAMES = {
    "unsafe": ("LeakUnderChurn.store", "sun.misc.Unsafe.allocateMemory"),
    "inflater": ("LeakUnderChurn.inflate", "java.util.zip.Inflater.init"),
}


@dataclass(frozen=True)
class Case:
    """A program on a JDK, recorded in a mode.  way "": one of the zoo's healthy ones, else how it leaks."""

    mode: str
    jdk: int
    program: str
    way: str = ""
    leak: float = 0.0
    churn: float = 0.0

    def __str__(self) -> str:
        churn = f" under {format_rate(self.churn)}" if self.churn else ""
        what = f"{self.way} {format_rate(self.leak)}{churn}" if self.way else self.program
        return f"{what}, JDK {self.jdk}, {self.mode}"


@dataclass(frozen=True)
class Judged:
    """What `offheap leaks` said of a case after so many seconds.

    recorded seconds of the recording that it read: fewer than `seconds` on a busy machine
    leak     the worst verdict on the leaking call path; None: it was not seen, or nothing leaks
    first    whether that is the first suspect
    covered  whether its interval of growth has the true rate in it; None where the rate is not known
    """

    case: Case
    seconds: float
    recorded: float
    leak: Said | None
    others: tuple[Said, ...]
    first: bool
    covered: bool | None

    @property
    def found(self) -> bool:
        return self.leak is not None and self.leak.verdict == "leak"

    @property
    def alarms(self) -> list[Said]:
        return [said for said in self.others if said.verdict == "leak"]


def cases(full: bool) -> list[Case]:
    """Each rate under each churn in each mode; the ways to leak and the JDKs by turns, unless `full`."""
    chosen = []
    for number, (churn, leak) in enumerate(itertools.product(CHURNS, RATES)):
        # An Inflater touches all its memory: ten megabytes a second of them would fill the machine.
        ways = ["unsafe"] if leak > 1e6 else list(FRAMES)
        pairs = list(itertools.product(ways, JDKS))
        for turn, mode in enumerate(MODES):
            for way, jdk in pairs if full else [pairs[(number + turn) % len(pairs)]]:
                chosen.append(Case(mode, jdk, "LeakUnderChurn", way, leak, churn))
    for number, name in enumerate(HEALTHY):
        for turn, mode in enumerate(MODES):
            for jdk in JDKS if full else [JDKS[(number + turn) % len(JDKS)]]:
                chosen.append(Case(mode, jdk, name))
    return chosen


def judge(case: Case, seconds: float, said_of: dict[str, Any], rate: float | None) -> Judged:
    """said_of: what `offheap leaks --all --json` prints; rate: the true one in bytes a second, if known."""
    leak, first, covered, others = None, False, None, []
    for suspect in said_of["suspects"]:
        names = [frame["name"] for frame in suspect["stack"]]
        its = case.way != "" and all(name in names for name in FRAMES[case.way])
        said = Said(suspect["verdict"], suspect["confidence"], its, names[-1] if names else "")
        if its and leak is None:
            leak, first = said, suspect["rank"] == 1
            growth = suspect["growth_bytes_per_second"]
            if rate is not None and said.verdict == "leak":
                covered = growth["low"] <= rate <= growth["high"]
        elif not its:
            others.append(said)
    recorded = said_of["recording"]["duration_seconds"]
    return Judged(case, seconds, recorded, leak, tuple(others), first, covered)


def run(
    case: Case, classes: Path, zoo: zoo_programs.Zoo, folder: Path, readings: Sequence[float] = READINGS
) -> list[Judged]:
    """Records the program for as long as the last reading takes, and judges it at every reading."""
    java = java_homes.java(case.jdk)
    if case.way:
        size = INFLATER if case.way == "inflater" else 65536 if case.leak >= 1e6 else 4096
        command = [str(java), "-Xmx128m", "-Xmn4m", "-XX:+UseSerialGC", "-cp", str(classes), case.program]
        command += [case.way, str(case.leak), str(case.churn), str(size)]
    else:
        command = zoo.command(zoo_programs.programs()[case.program], java)
    output = folder / "recording.offheap"
    judged = []
    recorder = command_line.offheap("run", *MODES[case.mode], "-o", output, "--", *command)
    with zoo_programs.Running(recorder) as running:
        start = time.monotonic()
        for seconds in readings:
            time.sleep(max(start + seconds - time.monotonic(), 0))
            asked = command_line.offheap("leaks", output, "--all", "--json")
            done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
            if done.returncode != 0:
                raise RuntimeError(f"{case}: {done.stderr.strip()}")
            truths = running.truths(1)
            # The program knows the bytes of Unsafe; those of an Inflater depend on zlib.
            rate = truths[-1].bytes / len(truths) if case.way == "unsafe" else None
            judged.append(judge(case, seconds, json.loads(done.stdout), rate))
        # The end of this block kills `offheap run`, which would leave its folder in /dev/shm.
        os.kill(running.pid, signal.SIGTERM)
        running.process.wait(60)
    return judged


def spaced(seconds: float) -> Callable[[], None]:
    """Lets threads pass one by one: JVMs that start together are judged together, and all of them late."""
    lock, last = threading.Lock(), [0.0]

    def wait() -> None:
        with lock:
            time.sleep(max(last[0] + seconds - time.monotonic(), 0))
            last[0] = time.monotonic()

    return wait


def run_all(chosen: Sequence[Case], at_once: int) -> list[Judged]:
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")
    gate = spaced(3)
    judged: list[Judged] = []
    with tempfile.TemporaryDirectory(prefix="offheap-evaluate-") as scratch:
        classes = churn_jvm.compile_java("LeakUnderChurn.java", Path(scratch) / "classes")

        def once(case: Case) -> list[Judged]:
            gate()
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                return run(case, classes, zoo, Path(folder))

        with ThreadPoolExecutor(at_once) as pool:
            started = [pool.submit(once, case) for case in chosen]
            try:
                for number, future in enumerate(as_completed(started), 1):
                    readings = future.result()
                    judged += readings
                    print(f"{number}/{len(chosen)} {describe(readings)}", file=sys.stderr, flush=True)
            except KeyboardInterrupt:
                print("no more are started; those that run are left to end, uncounted", file=sys.stderr)
                pool.shutdown(cancel_futures=True)
    return judged


def describe(readings: Sequence[Judged]) -> str:
    """One program in one line, false alarms by name."""
    said = []
    for one in readings:
        verdict = one.leak.verdict if one.leak else "not seen" if one.case.way else "done"
        accused = "".join(f", {alarm.about} accused" for alarm in one.alarms)
        said.append(f"{format_duration(one.seconds)}: {verdict}{accused}")
    return f"{readings[0].case}: {', '.join(said)}"


def of(count: int, whole: int) -> str:
    return f"{count} of {whole}" if whole else "-"


def summary_table(judged: Sequence[Judged]) -> list[str]:
    rows = []
    for mode, seconds in itertools.product(MODES, READINGS):
        at = [one for one in judged if one.case.mode == mode and one.seconds == seconds]
        leaks = [one for one in at if one.case.way]
        large = [one for one in leaks if one.case.leak >= 1e5]
        found = [one for one in leaks if one.found]
        well = [one for one in at if not one.case.way]
        covered = [one.covered for one in found if one.covered is not None]
        wrong = sum(len(one.alarms) for one in at)
        rows.append(
            [
                mode,
                format_duration(seconds),
                format_duration(statistics.median(one.recorded for one in at)) if at else "-",
                of(len(found), len(leaks)),
                of(sum(one.found for one in large), len(large)),
                of(sum(one.first for one in found), len(found)),
                of(len(found), len(found) + wrong),
                of(sum(bool(one.alarms) for one in well), len(well)),
                of(sum(covered), len(covered)),
            ]
        )
    return document.table(
        (
            "mode",
            "after",
            "read (median)",
            "leaks found",
            "of those of 98 KiB/s and more",
            "first suspect is the leak",
            "verdicts `leak` that are right",
            "healthy programs accused",
            "growth interval holds the rate",
        ),
        rows,
    )


def leak_table(judged: Sequence[Judged]) -> list[str]:
    rows = []
    for leak, churn in itertools.product(RATES, CHURNS):
        row = [format_rate(leak), format_rate(churn) if churn else "none"]
        for mode in MODES:
            runs = [
                one for one in judged if (one.case.leak, one.case.churn, one.case.mode) == (leak, churn, mode)
            ]
            times = [[one for one in runs if one.seconds == seconds] for seconds in READINGS]
            row.append(", ".join(of(sum(one.found for one in at), len(at)) for at in times))
        rows.append(row)
    return document.table(("leak", "churn", *MODES), rows)


def missed_table(judged: Sequence[Judged]) -> list[str]:
    """The verdicts on leaks that were not found, which the calibration hides among the JVM's own sites."""
    missed = [one for one in judged if one.case.way and not one.found]
    said = Counter(one.leak.verdict if one.leak else "not seen" for one in missed)
    sure = Counter(one.leak.verdict for one in missed if one.leak and one.leak.confidence >= 0.95)
    rows = [[verdict, str(count), str(sure[verdict])] for verdict, count in said.most_common()]
    return document.table(("said of a leak that was not found", "times", "with 95 % and more"), rows)


def healthy_table(judged: Sequence[Judged]) -> list[str]:
    rows = []
    for name in HEALTHY:
        at = [
            [one for one in judged if one.case.program == name and one.seconds == time] for time in READINGS
        ]
        rows.append([name, *(of(sum(bool(one.alarms) for one in runs), len(runs)) for runs in at)])
    return document.table(("healthy program", "accused after 1 min", "after 5 min"), rows)


def report(judged: Sequence[Judged], ran: str) -> list[str]:
    """The section of the document; `ran` is the command that measured."""
    said = [one for reading in judged for one in (*reading.others, *([reading.leak] if reading.leak else []))]
    runs = len({one.case for one in judged})
    return [
        "## Real JVMs",
        "",
        f"{ran}, {document.machine()}, {document.load()}; {runs} runs on JDK {', '.join(map(str, JDKS))}.",
        "",
        "Here nothing is simulated: a JVM runs under `offheap run`, and `offheap leaks` is asked about the",
        "recording while it grows. The leak and the churn beside it have one call path, by turns of",
        "`Inflater` and `Unsafe`; the healthy programs are the zoo's. The growth interval is judged where",
        "the program counts its bytes itself: `Unsafe`.",
        "",
        *summary_table(judged),
        "",
        "Found after 1 minute, after 5 minutes:",
        "",
        *leak_table(judged),
        "",
        *missed_table(judged),
        "",
        *healthy_table(judged),
        "",
        "Calibration, over both readings and all sites, the JVM's own included:",
        "",
        *simulated_verdicts.calibration_of(said),
    ]
