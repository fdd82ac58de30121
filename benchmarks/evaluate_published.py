"""How good are the answers on programs around published libraries?  Each leaking and healthy, on real JVMs.

    .venv/bin/python benchmarks/evaluate_published.py            print the tables
    .venv/bin/python benchmarks/evaluate_published.py --write    and put them into docs/evaluation.md
    .venv/bin/python benchmarks/evaluate_published.py --full     each program on every JDK, loaded and not
    .venv/bin/python benchmarks/evaluate_published.py --only zstd-orders --jdk 17 --keep /tmp/published

Every program of examples/published is recorded for a minute by `offheap attach` when it is up, and by
`offheap run` from its start, with default options; then `leaks`, `check`, the ticket and `where` are asked
about the recording, and of a JVM that was attached to `where PID --watch` over the same minute.  JDKs, and
which of them with both CPUs kept busy by others, go by turns; --seed says where the turns start.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import document
import evaluate
import published
from evaluate_real import of, spaced
from published import JDKS, TWINS, Program, Ready, Twin
from published_answers import Answers, Judged, judge

import zoo
from offheap.quantities import format_duration, format_rate

DOCUMENT = published.ROOT / "docs" / "evaluation.md"
WRITER = "benchmarks/evaluate_published.py"
SECONDS = 60.0
WARM_SECONDS = 5  # an attach comes to a program that is up
PATIENCE_SECONDS = 240.0
AT_ONCE = 6
RECORDING = "recording.offheap"

Way = Literal["attach", "run"]
WAYS: tuple[Way, ...] = ("attach", "run")


@dataclass(frozen=True)
class Case:
    """A twin of a program on a JDK, recorded one way; `busy`: while others want both CPUs."""

    program: str
    twin: Twin
    jdk: int
    way: Way
    busy: bool

    def __str__(self) -> str:
        return f"{self.program} {self.twin} {self.jdk} {self.way}{' busy' if self.busy else ''}"


@dataclass(frozen=True)
class Outcome:
    """rate: what leaked a second by the program's own count, bytes; None where nobody knows."""

    case: Case
    judged: Judged
    rate: float | None

    @property
    def error(self) -> float | None:
        """Of the growth, as a share of the true rate."""
        if self.rate is None or self.judged.growth is None or not self.judged.found:
            return None
        return abs(self.judged.growth[0] / self.rate - 1)


def cases(programs: Sequence[Program], seed: int, jdks: Sequence[int], full: bool) -> list[Case]:
    """Both twins both ways, one of the two ways with load: a JDK each, by turns; `full`: all there are."""
    chosen = []
    turn = random.Random(seed).randrange(len(JDKS))
    for number, program in enumerate(programs):
        its = [jdk for jdk in program.jdks if jdk in jdks]
        for place, (twin, way) in enumerate((twin, way) for twin in TWINS for way in WAYS):
            if full:
                chosen += [Case(program.name, twin, jdk, way, busy) for jdk in its for busy in (False, True)]
            elif its:
                jdk = its[(turn + number + place) % len(its)]
                chosen.append(Case(program.name, twin, jdk, way, (turn + number + (way == "run")) % 2 == 1))
    return chosen


def ask(*arguments: str | os.PathLike[str], statuses: Sequence[int] = (0,)) -> str:
    done = subprocess.run(
        zoo.offheap(*arguments),
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
    """Starts the program, records it, and judges the answers; what was printed stays in `folder`."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    command = ready.command(zoo.java(case.jdk), case.twin, scratch)
    recording = folder / RECORDING
    if case.way == "run":
        with zoo.Running(zoo.offheap("run", "-o", recording, "--", *command)) as running:
            start, first = time.monotonic(), running.truths(1)[-1]
            time.sleep(seconds)
            spent, last = time.monotonic() - start, running.truths(1)[-1]
            running.exit(PATIENCE_SECONDS)
        watched = None
    else:
        with zoo.Running(command) as running, ThreadPoolExecutor(1) as pool:
            running.truths(WARM_SECONDS)
            start, first = time.monotonic(), running.truths(1)[-1]
            look = ["where", str(running.pid), "--watch", f"{seconds:.0f}s", "--json"]
            watch = pool.submit(ask, *look)
            ask("attach", str(running.pid), "--duration", f"{seconds:.0f}s", "-o", recording)
            spent, last = time.monotonic() - start, running.truths(1)[-1]
            watched = watch.result()
    shutil.rmtree(scratch, ignore_errors=True)
    rate = _rate(ready.program, case.twin, first, last, spent)
    (folder / "kept.json").write_text(json.dumps({"case": asdict(case), "rate": rate, "watched": watched}))
    return judge_kept(folder)


def judge_kept(folder: Path) -> Outcome:
    """Asks the commands about the recording in `folder`, and leaves there what they print."""
    kept = json.loads((folder / "kept.json").read_text())
    case = Case(**kept["case"])
    said = answers(folder / RECORDING, kept["watched"])
    (folder / "answers.json").write_text(json.dumps(asdict(said), indent=1))
    (folder / "leaks.txt").write_text(said.text)
    return Outcome(case, judge(published.programs()[case.program], case.twin, said), kept["rate"])


def judge_again(folder: Path, at_once: int) -> tuple[list[Outcome], list[str]]:
    """Outcomes of the recordings that an earlier evaluation kept there; what `--watch` said stays."""
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
    programs = published.programs()
    ready: dict[str, Ready] = {}
    troubles: list[str] = []
    for name in dict.fromkeys(case.program for case in chosen):
        try:
            ready[name] = published.prepare(programs[name])
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


def describe(outcome: Outcome) -> str:
    """One recording in one line."""
    case, judged = outcome.case, outcome.judged
    said = [judged.conclusion]
    if case.twin == "leak":
        said.append(f"#{judged.rank} {judged.verdict}" if judged.rank else "its frames are in no suspect")
        said.append("headline" if judged.headline else "shown" if judged.shown else "NOT SHOWN")
        if judged.growth:
            said.append(
                format_rate(judged.growth[0]) + (f" of {format_rate(outcome.rate)}" if outcome.rate else "")
            )
    said += [f"ACCUSED {name}" for name in judged.accused]
    said += [
        f"where {way} {kind}{'' if how == 'right' else ' ' + how.upper()}"
        for way, (how, kind) in judged.where.items()
    ]
    said += [f"CONTRADICTION {words}" for words in judged.contradictions]
    return f"{case}: {', '.join(said)}"


@dataclass
class Tally:
    """The outcomes of one row."""

    name: str
    outcomes: list[Outcome] = field(default_factory=list)

    def of_twin(self, twin: Twin) -> list[Judged]:
        return [one.judged for one in self.outcomes if one.case.twin == twin]

    def row(self) -> list[str]:
        leaks, well = self.of_twin("leak"), self.of_twin("healthy")
        both = [*leaks, *well]
        errors = [one.error for one in self.outcomes if one.error is not None]
        where = [how for one in both for how, _ in one.where.values()]
        return [
            self.name,
            of(sum(one.found for one in leaks), len(leaks)),
            of(sum(one.verdict == "growing" for one in leaks), len(leaks)),
            of(sum(one.rank == 1 for one in leaks), len(leaks)),
            of(sum(one.headline for one in leaks), len(leaks)),
            of(sum(one.shown for one in leaks), len(leaks)),
            f"{statistics.median(errors):.0%}" if errors else "-",
            of(sum(bool(one.accused) for one in leaks), len(leaks)),
            of(sum(bool(one.accused) for one in well), len(well)),
            of(sum(one.conclusion == "no leak" for one in well), len(well)),
            of(where.count("right"), len(where)),
            str(where.count("wrong")),
            str(sum(len(one.contradictions) for one in both)),
        ]


HEADER = (
    "",
    "called a leak, first or second",
    "growing",
    "first",
    "application frame in the first sentence",
    "and anywhere in the text",
    "growth error (median)",
    "other sites accused",
    "healthy twins accused",
    "healthy: no leak above X",
    "where right",
    "where wrong",
    "contradictions",
)


def report(outcomes: Sequence[Outcome], troubles: Sequence[str], seconds: float, seed: int) -> list[str]:
    groups: dict[str, Callable[[Case], bool]] = {
        "attached": lambda case: case.way == "attach",
        "from the start": lambda case: case.way == "run",
        "alone": lambda case: not case.busy,
        "both CPUs busy": lambda case: case.busy,
        **{f"JDK {jdk}": functools.partial(_on, jdk) for jdk in JDKS},
    }
    by_group = [Tally(name, [one for one in outcomes if has(one.case)]) for name, has in groups.items()]
    names = sorted({one.case.program for one in outcomes})
    by_program = [Tally(name, [one for one in outcomes if one.case.program == name]) for name in names]
    everything = Tally("**all**", list(outcomes))
    lines = [
        "## Published libraries",
        "",
        f"`python {WRITER}`, {document.machine()}, {document.load()}; {len(outcomes)} recordings of "
        f"{format_duration(seconds)}, seed {seed}.",
        "",
        "Programs around published libraries ([examples/published](../examples/published/README.md)),",
        "each in two twins under the same load, one of which leaks. Default options.",
        "",
        *document.table(HEADER, [tally.row() for tally in (everything, *by_group) if tally.outcomes]),
        "",
        "By program:",
        "",
        *document.table(HEADER, [tally.row() for tally in by_program]),
    ]
    wrong = [describe(one) for one in outcomes if _wrong(one)]
    if wrong:
        lines += ["", "Not as it should be:", "", *(f"- {line}" for line in sorted(wrong))]
    if troubles:
        lines += ["", "Not run to the end:", "", *(f"- {line}" for line in sorted(troubles))]
    return lines


def _on(jdk: int, case: Case) -> bool:
    return case.jdk == jdk


def _wrong(outcome: Outcome) -> bool:
    judged = outcome.judged
    missed = outcome.case.twin == "leak" and not (judged.found and judged.shown)
    where = any(how == "wrong" for how, _ in judged.where.values())
    return bool(missed or judged.accused or judged.contradictions or where)


def main() -> int:
    parser = argparse.ArgumentParser(description="How good are the answers on published libraries?")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {DOCUMENT.name}")
    parser.add_argument(
        "--full", action="store_true", help="every program on every JDK, with and without load"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1000), help="where the turns start")
    parser.add_argument("--only", nargs="*", metavar="PROGRAM", help="these programs")
    parser.add_argument("--jdk", nargs="*", type=int, default=JDKS, help="these JDKs")
    parser.add_argument("--way", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--twin", nargs="*", choices=TWINS, default=TWINS)
    parser.add_argument(
        "--load", choices=("alone", "busy", "both"), default="both", help="with or without load"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="JVMs")
    parser.add_argument("--keep", type=Path, help="a folder for recordings and answers")
    parser.add_argument("--again", type=Path, metavar="KEPT", help="judge the recordings kept there anew")
    args = parser.parse_args()
    programs = published.programs()
    unknown = set(args.only or ()) - set(programs)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    wanted = [one for one in programs.values() if not args.only or one.name in args.only]
    chosen = [
        case
        for case in cases(wanted, args.seed, args.jdk, args.full)
        if case.way in args.way
        and case.twin in args.twin
        and args.load in ("both", "busy" if case.busy else "alone")
    ]
    if not args.again:
        print(f"{len(chosen)} recordings, seed {args.seed}", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        keep = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="published-")))
        if args.again:
            outcomes, troubles = judge_again(args.again, len(os.sched_getaffinity(0)))
        else:
            outcomes, troubles = run_all(chosen, args.at_once, args.seconds, keep)
    lines = report(outcomes, troubles, args.seconds, args.seed)
    print("\n".join(lines))
    if args.write:
        document.replace_section(DOCUMENT, WRITER, lines, evaluate.TITLE)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
