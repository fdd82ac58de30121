"""`offheap run`: starts a program under the probe and records it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli import jfr_options, sampling_options
from offheap.cli.say import say
from offheap.errors import UserError
from offheap.launch.signals import held
from offheap.quantities import parse_duration, parse_positive_duration

if TYPE_CHECKING:
    from offheap.launch.launch import Launched
    from offheap.recording.capture.recorder import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Start a program under the probe and record it if it is a JVM, or else the JVM that it starts.  "
        "The program keeps its standard streams, receives the signals sent to offheap, and its exit status "
        "is offheap's."
    )
    parser.epilog = """examples:
  offheap run -- java -jar app.jar
  offheap run --exact -o startup.offheap -- ./gradlew test
  offheap run --duration 10m -- bin/catalina.sh run"""
    add_recording_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UserError("no command is given", "write it after --: offheap run -- java -jar app.jar")
    launched = record(args, command)
    for outcome in launched.outcomes:
        say(f"recorded {outcome.output}; now run: offheap leaks {outcome.output}")
    return launched.status or (2 if launched.problems else 0)


def say_not_followed(outcome: Outcome) -> None:
    """Says why Java objects that were requested were not followed."""
    from offheap.recording.capture.info import NOT_FOLLOWED

    words = NOT_FOLLOWED.get(outcome.java_heap.state) if outcome.java_heap else None
    if words:
        say(words)


def add_recording_options(parser: argparse._ActionsContainer) -> None:
    """The options that `record` reads."""
    sampling_options.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the recording (default PROGRAM-PID.offheap)"
    )
    parser.add_argument(
        "--every",
        type=parse_duration,
        metavar="TIME",
        help="time between snapshots (default 1s, longer as the recording grows)",
    )
    parser.add_argument(
        "--duration",
        type=parse_positive_duration,
        metavar="TIME",
        help="stop recording after TIME; the program continues",
    )
    parser.add_argument("--follow", action="store_true", help="also record the JVM's child processes")
    add_keep_arguments(parser)
    jfr_options.add_arguments(parser)


def add_keep_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--keep-arguments",
        action="store_true",
        help="keep passwords, tokens and keys of the command line in the recording (default: masked)",
    )


def record(args: argparse.Namespace, command: Sequence[str], sampling: str | None = None) -> Launched:
    """Runs the command under the probe until it ends, with the options of `add_recording_options`.

    `sampling`: the probe's options for the sampling, None: as in `args`.
    """
    if args.every is not None and args.every <= 0:
        raise UserError("--every must be greater than 0", "give a time such as 1s")

    from offheap.jvm.counters.collection_log import CollectionLog
    from offheap.probe import options
    from offheap.probe.library import probe_library

    words = (
        sampling_options.words(args)
        if sampling is None
        else ",".join([sampling, *sampling_options.beside(args)])
    )
    sampling_options.allow_reading(words)
    if not args.force:
        # Before the recorder grows any further.
        from offheap.probe import admission

        words = ",".join(word for word in (words, admission.admit(os.getpid(), starting=True).words) if word)
    with held():
        from offheap.inspect.over_time import owners_reader
        from offheap.launch.launch import Settings, launch

    library = options.preload(probe_library(), os.environ.get("LD_PRELOAD", ""))

    def variables(folder: Path) -> dict[str, str]:
        text = options.environment_text(words, directory=folder, follow=args.follow)
        search = "" if args.follow else f",search={os.getpid()}"
        return {"LD_PRELOAD": library, "OFFHEAP": text + search}

    launched = launch(
        command,
        Settings(
            variables=variables,
            output=args.output,
            exact="exact" in words.split(","),
            follow=args.follow,
            duration=args.duration,
            every=args.every,
            owners=owners_reader(),
            collections=CollectionLog,
            say=say,
            keep_arguments=args.keep_arguments,
            beside=jfr_options.beside(args),
        ),
    )
    for outcome in launched.outcomes:
        say_not_followed(outcome)
    if not launched.outcomes and not launched.problems:
        raise UserError(
            f"nothing was recorded: {command[0]} never loaded the probe",
            "it may be linked statically, set-user-ID, or against musl",
        )
    return launched
