"""Programs around published libraries, leaking and healthy, recorded on real JVMs and judged.

Every program of examples/published is recorded for a minute with default options: by `offheap attach` when
it is up, and by `offheap run` from its start. Then `leaks`, `check`, the ticket and `where` judge the
recording; `where PID --watch` judges an attached JVM over the same minute. JDKs take turns, and so do runs
beside two busy processes; the seed decides where the turns start.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from harness import command_line
from harness.evaluation import published_programs
from harness.evaluation.published_answers import Answers, judge
from harness.evaluation.published_outcomes import WAYS, Case, Outcome, describe
from harness.evaluation.published_programs import JDKS, TWINS, Program, Ready, Twin
from harness.evaluation.real_jvms import spaced
from harness.jvms import java_homes, zoo

SECONDS = 60.0
WARM_SECONDS = 5  # an attach comes to a program that is up
PATIENCE_SECONDS = 240.0
AT_ONCE = 6
RECORDING = "recording.offheap"


def cases(programs: Sequence[Program], seed: int, jdks: Sequence[int], full: bool) -> list[Case]:
    """Both twins both ways, one way with load, on JDKs in turn; `full`: every JDK with and without load."""
    chosen = []
    turn = random.Random(seed).randrange(len(JDKS))
    for number, program in enumerate(programs):
        its = [jdk for jdk in program.jdks if jdk in jdks]
        for place, (twin, way) in enumerate((twin, way) for twin in TWINS for way in WAYS):
            if (twin, way) == ("leak", "attach") and not program.attach:
                continue
            if full:
                chosen += [Case(program.name, twin, jdk, way, busy) for jdk in its for busy in (False, True)]
            elif its:
                jdk = its[(turn + number + place) % len(its)]
                # Pairs of neighbours have all JDKs between them, so that load and JDK are independent.
                busy = (number // 2 + (way == "run")) % 2 == 1
                chosen.append(Case(program.name, twin, jdk, way, busy))
    return chosen


def ask(*arguments: str | os.PathLike[str], statuses: Sequence[int] = (0,)) -> str:
    done = subprocess.run(
        command_line.offheap(*arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "COLUMNS": "160"},
    )
    if done.returncode not in statuses:
        raise RuntimeError(f"offheap {' '.join(map(str, arguments))}: {done.stderr.strip()[-500:]}")
    return done.stdout


def answers(recording: Path, watched: str | None) -> Answers:
    """What every command says of the recording."""
    return Answers(
        json.loads(ask("leaks", recording, "--json")),
        json.loads(ask("check", recording, "--json", statuses=(0, 1, 3))),
        ask("leaks", recording),
        ask("report", recording, "--format", "md", "-o", "-"),
        json.loads(ask("where", recording, "--json")),
        json.loads(watched) if watched else None,
    )


def run(case: Case, ready: Ready, folder: Path, seconds: float) -> Outcome:
    """Starts the program, records it, and judges the answers; the output stays in `folder`."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    command = ready.command(java_homes.java(case.jdk), case.twin, scratch)
    recording = folder / RECORDING
    if case.way == "run":
        with zoo.Running(command_line.offheap("run", "-o", recording, "--", *command)) as running:
            start, first = time.monotonic(), running.truths(1)[-1]
            time.sleep(seconds)
            spent, last = time.monotonic() - start, running.truths(1)[-1]
            running.exit(PATIENCE_SECONDS)
        watched = None
    else:
        with zoo.Running(command) as running, ThreadPoolExecutor(1) as pool:
            running.truths(WARM_SECONDS)
            start, first = time.monotonic(), running.truths(1)[-1]
            where = ["where", str(running.pid), "--watch", f"{seconds:.0f}s", "--json"]
            watch = pool.submit(ask, *where)
            ask("attach", str(running.pid), "--duration", f"{seconds:.0f}s", "-o", recording)
            spent, last = time.monotonic() - start, running.truths(1)[-1]
            watched = watch.result()
    shutil.rmtree(scratch, ignore_errors=True)
    rate = _rate(ready.program, case.twin, first, last, spent)
    (folder / "kept.json").write_text(json.dumps({"case": asdict(case), "rate": rate, "watched": watched}))
    return judge_kept(folder)


def judge_kept(folder: Path) -> Outcome:
    """Asks the commands about the recording in `folder`, and keeps their output there."""
    kept = json.loads((folder / "kept.json").read_text())
    case = Case(**kept["case"])
    said = answers(folder / RECORDING, kept["watched"])
    (folder / "answers.json").write_text(json.dumps(asdict(said), indent=1))
    (folder / "leaks.txt").write_text(said.text)
    return Outcome(case, judge(published_programs.programs()[case.program], case.twin, said), kept["rate"])


def judge_again(folder: Path, at_once: int) -> tuple[list[Outcome], list[str]]:
    """Outcomes of the recordings of an earlier evaluation; the answers of `--watch` are kept ones."""
    folders = sorted(path.parent for path in folder.glob("*/kept.json"))
    with ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(judge_kept, folders))
    for outcome in outcomes:
        print(describe(outcome), file=sys.stderr, flush=True)
    return outcomes, []


def _rate(program: Program, twin: Twin, first: zoo.Truth, last: zoo.Truth, seconds: float) -> float | None:
    if twin == "healthy":
        return None
    known = last.bytes - first.bytes or (last.blocks - first.blocks) * program.bytes_per_object
    return known / seconds if known else None


@contextlib.contextmanager
def load(seconds: float) -> Iterator[None]:
    """Keeps each CPU busy with a process of its own, for so long at most."""
    code = f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
    burners = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for burner in burners:
            burner.terminate()
            burner.wait(30)


def run_all(
    chosen: Sequence[Case], at_once: int, seconds: float, keep: Path
) -> tuple[list[Outcome], list[str]]:
    """Outcomes, and what went wrong; first all that run alone, then those with load."""
    programs = published_programs.programs()
    ready: dict[str, Ready] = {}
    troubles: list[str] = []
    for name in dict.fromkeys(case.program for case in chosen):
        try:
            ready[name] = published_programs.prepare(programs[name])
        except Exception as error:
            troubles.append(f"{name}: {error}")
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    outcomes: list[Outcome] = []
    for busy in (False, True):
        now = [case for case in chosen if case.busy == busy and case.program in ready]
        longest = (len(now) / at_once + 1) * (seconds + PATIENCE_SECONDS)
        with load(longest) if busy and now else contextlib.nullcontext():
            _some(now, ready, at_once, seconds, keep, outcomes, troubles)
    return outcomes, troubles


def _some(
    chosen: Sequence[Case],
    ready: dict[str, Ready],
    at_once: int,
    seconds: float,
    keep: Path,
    outcomes: list[Outcome],
    troubles: list[str],
) -> None:
    gate = spaced(3)

    def once(case: Case) -> Outcome:
        gate()
        folder = keep / str(case).replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        return run(case, ready[case.program], folder, seconds)

    with ThreadPoolExecutor(at_once) as pool:
        started = {pool.submit(once, case): case for case in chosen}
        try:
            for number, future in enumerate(as_completed(started), 1):
                error = future.exception()
                if error is None:
                    outcomes.append(future.result())
                    line = describe(outcomes[-1])
                else:
                    line = f"{started[future]}: {type(error).__name__}: {error}"
                    troubles.append(line)
                print(
                    f"{time.strftime('%H:%M:%S')} {number}/{len(chosen)} {line}", file=sys.stderr, flush=True
                )
        except KeyboardInterrupt:
            print("no more are started; those that run are left to end, uncounted", file=sys.stderr)
            pool.shutdown(cancel_futures=True)
            raise
