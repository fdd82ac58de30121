"""`offheap check`: a gate for CI: passes or fails recordings, or a command that it records."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offheap.cli import run as run_command
from offheap.cli.load import add_application, read
from offheap.errors import UserError
from offheap.launch.signals import held
from offheap.quantities import parse_rate, parse_size

if TYPE_CHECKING:
    from offheap.analysis.gate.gate import Limits
    from offheap.analysis.gate.results import Gate, Outcome
    from offheap.formats.suppressions import Suppression
    from offheap.launch.launch import Launched

STATUSES: dict[Outcome, int] = {"passed": 0, "failed": 1, "cannot tell": 3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Pass or fail recordings, or record a command and pass or fail it, by how fast native memory "
        "grows and which sites leak, not by what is live at exit; Java objects likewise, where they were "
        "recorded (--java-heap).  Without a limit, no site may leak.  "
        "Exit status: 0 passed, 1 failed, 3 cannot tell; a command that itself fails gives its own status."
    )
    parser.epilog = """examples:
  offheap check app.offheap
  offheap check app.offheap --max-growth 1MiB/min --junit offheap.xml
  offheap check --max-java-growth 1MiB/min -- java -jar app.jar
  offheap check --max-growth 1MiB/min --max-live 500MiB -- java -jar app.jar
  offheap check new.offheap --no-new-leaks --baseline main.offheap"""
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-growth", type=parse_rate, metavar="RATE", help="largest growth of live memory: 1MiB/min, 10k/s"
    )
    limits.add_argument(
        "--max-java-growth",
        type=parse_rate,
        metavar="RATE",
        help="largest growth of Java objects that survive collections; COMMAND then runs with --java-heap",
    )
    limits.add_argument(
        "--max-live",
        type=parse_size,
        metavar="SIZE",
        help="most that may be live at any snapshot, without the JVM's own mappings",
    )
    limits.add_argument(
        "--no-new-leaks", action="store_true", help="no site may leak that did not leak in the baseline"
    )
    limits.add_argument("--baseline", metavar="OLD", help="an earlier recording, for --no-new-leaks")
    limits.add_argument(
        "--ignore", metavar="FILE", help="sites to ignore: LeakSanitizer suppressions (leak:PATTERN)"
    )
    add_application(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    output.add_argument("--github", action="store_true", help="print GitHub annotations")
    output.add_argument("--json", action="store_true", help="print JSON (schema offheap.check/1)")
    run_command.add_recording_options(parser.add_argument_group("recording a command, as in offheap run"))
    parser.set_defaults(recordings=[], command=[])
    parser.add_argument(
        "what",
        nargs=argparse.REMAINDER,
        action=_RecordingsOrCommand,
        metavar="RECORDING ... | -- COMMAND ...",
        help="recordings or live files, or a command to record",
    )


class _RecordingsOrCommand(argparse.Action):
    """Recordings with options between and after them, up to `--`; the command follows.

    argparse drops the `--` of every other kind of positional, and so cannot separate the two.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        words = [str(word) for word in values or ()]
        if "--" in words:
            cut = words.index("--")
            words, namespace.command = words[:cut], words[cut + 1 :]
            if not namespace.command:
                parser.error("there is no command after --")
        while words and not words[0].startswith("-"):
            namespace.recordings = [*namespace.recordings, words.pop(0)]
        if words:
            parser.parse_args(words, namespace)


def run(args: argparse.Namespace) -> int:
    if bool(args.recordings) == bool(args.command):
        raise UserError(
            "no recording and no command is given"
            if not args.command
            else "both recordings and a command are given",
            "give recordings, or a command after --: offheap check -- java -jar app.jar",
        )
    if args.recordings:
        _refuse_recording_options(args)
    if args.no_new_leaks and args.baseline is None:
        raise UserError("--no-new-leaks needs a baseline", "add --baseline OLD")
    if args.junit is not None and not args.junit.parent.is_dir():
        raise UserError(f"{args.junit.parent} is not a folder", "choose another place for --junit")

    if args.junit is not None:
        from offheap.report.text.output import check, refuse_special

        refuse_special(args.junit, "--junit")
        check(args.junit)
    if args.command and args.output is not None:
        from offheap.recording.storage.output import check_output

        check_output(args.output)

    from offheap.formats import suppressions

    # Before the command runs: a wrong path must not cost an hour of recording.
    ignore = suppressions.read(args.ignore) if args.ignore is not None else ()
    with held():
        baseline = read(args.baseline, args.app) if args.baseline is not None else None
    limits = _limits(args)
    if args.max_java_growth is not None:
        args.java_heap = True
    launched = run_command.record(args, args.command, _sampling(args, limits)) if args.command else None
    paths = args.recordings if launched is None else _recorded(launched)

    from offheap.analysis.gate.gate import gate

    gates = [
        gate(read(path, args.app, beside=args.baseline), limits, baseline=baseline, suppressions=ignore)
        for path in paths
    ]
    outcomes = {result.outcome for result in gates}
    outcome: Outcome = next((o for o in ("failed", "cannot tell") if o in outcomes), "passed")
    used = frozenset[int]().union(*(result.used for result in gates))
    unused = [suppression for index, suppression in enumerate(ignore) if index not in used]
    _report(args, gates, outcome, unused)
    return (launched.status if launched is not None else 0) or STATUSES[outcome]


def _refuse_recording_options(args: argparse.Namespace) -> None:
    """A gate on what is recorded already would silently drop them."""
    parser = argparse.ArgumentParser()
    run_command.add_recording_options(parser)
    for name, value in vars(parser.parse_args([])).items():
        if getattr(args, name) != value:
            raise UserError(
                f"--{name.replace('_', '-')} is for recording a command, and recordings are given",
                "leave it out, or give a command after --",
            )


def _limits(args: argparse.Namespace) -> Limits:
    with held():
        from offheap.analysis.gate.gate import Limits

    leaks = args.no_new_leaks or args.baseline is not None
    return Limits(
        max_growth=args.max_growth,
        max_live=args.max_live,
        leaks=leaks,
        max_java_growth=args.max_java_growth,
    )


def _sampling(args: argparse.Namespace, limits: Limits) -> str | None:
    """The probe's options with which a recording can decide the gate; None: the requested ones."""
    if args.interval is not None or args.exact or args.budget is not None or limits.slowest_leak is None:
        return None
    with held():
        from offheap.analysis.verdicts.power import precision

    chosen = precision(limits.slowest_leak, args.duration)
    print(f"offheap: {chosen.why}", file=sys.stderr, flush=True)
    return f"interval={chosen.interval_bytes}" if chosen.interval_bytes else "exact"


def _recorded(launched: Launched) -> list[str]:
    """The recordings of a command, without JVMs too short-lived to judge unless there are no others."""
    from offheap.analysis.verdicts.verdict_rules import SHORTEST

    if launched.problems:
        raise launched.problems[0]
    long = [outcome for outcome in launched.outcomes if outcome.seconds >= SHORTEST]
    return [str(outcome.output) for outcome in long or launched.outcomes[:1]]


def _report(
    args: argparse.Namespace, gates: list[Gate], outcome: Outcome, unused: Sequence[Suppression]
) -> None:
    if args.junit is not None:
        from offheap.formats import junit

        junit.write(gates, args.junit)
    from offheap.report.json.check import check_json
    from offheap.report.terminal.recording import check as report

    if args.json:
        from offheap.report.json import schemas

        print(schemas.dumps(check_json(gates, outcome, [f"{s.path}:{s.line}: {s}" for s in unused])))
    else:
        from offheap.report.terminal.console import console

        out = console()
        for result in gates:
            report.print_gate(out, result)
    from offheap.report.text.printable import printable

    for suppression in unused:
        where = f"{suppression.path}:{suppression.line}"
        print(printable(f"offheap: unused suppression {suppression} ({where})"), file=sys.stderr)
    if args.github:
        from offheap.formats.github_annotations import workflow_commands

        # GitHub reads both standard output and standard error; with JSON standard output is only JSON.
        stream = sys.stderr if args.json else sys.stdout
        for line in workflow_commands(gates, Path(os.environ.get("GITHUB_WORKSPACE") or ".")):
            print(line, file=stream)
