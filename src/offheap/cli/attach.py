"""`offheap attach`: loads the probe into a running JVM, records, and stops the probe."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from offheap.cli import jfr_options, sampling_options
from offheap.cli.run import add_keep_arguments, say_not_followed
from offheap.cli.say import say
from offheap.errors import UserError
from offheap.launch.ending import Ending, interruptible
from offheap.quantities import format_duration, parse_duration, parse_positive_duration
from offheap.report.text.printable import printable

# Before the end, so that the last reading of RSS still includes the probe's memory.
_LAST_READING_SECONDS = 0.5
_LONGEST_NAME = 64  # characters: the name of a main class may be as long as a file's may be


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Load the probe into a running JVM, record until the duration is over, Ctrl-C, or the JVM ends, "
        "then stop the probe and restore every function pointer.  No restart, no debugger; the JVM needs no "
        "JDK."
    )
    parser.epilog = """examples:
  offheap attach 4711 --duration 5m
  offheap attach OrderService -o leak.offheap
  offheap attach 4711 --duration 5m --gc        judge what a collection leaves
  offheap attach 4711 --exact --duration 30s    every block, exact to the byte"""
    parser.add_argument("target", metavar="PID|NAME", help="a process, or part of a main class or jar name")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the recording (default NAME-PID.offheap)"
    )
    parser.add_argument(
        "--duration",
        type=parse_positive_duration,
        metavar="TIME",
        help="stop recording after TIME (default: at Ctrl-C)",
    )
    parser.add_argument(
        "--every",
        type=parse_duration,
        metavar="TIME",
        help="time between snapshots (default 1s, longer as the recording grows)",
    )
    sampling_options.add_arguments(parser)
    parser.add_argument(
        "--gc",
        action="store_true",
        help="run a full garbage collection at the end and judge what survived it; it pauses the JVM",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the probe recording when this command ends"
    )
    add_keep_arguments(parser)
    jfr_options.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.attach/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.inspect import discovery
    from offheap.inspect.over_time import owners_reader
    from offheap.jvm.counters.collection_log import CollectionLog
    from offheap.probe import control
    from offheap.probe.live_files import stale_files
    from offheap.probe.sole_recorder import sole_recorder
    from offheap.proc import oom
    from offheap.recording.capture.recorder import record
    from offheap.recording.storage.output import check_output

    sampling = sampling_options.words(args)
    sampling_options.allow_reading(sampling)
    if args.every is not None and args.every <= 0:
        raise UserError("--every must be greater than 0", "give a time such as 1s")
    pid = discovery.resolve(args.target)
    output = args.output or default_output(pid)
    check_output(output)

    from offheap.cli.progress import ProgressLine

    stale_files.sweep()
    oom.volunteer()
    with interruptible() as interrupted:
        started = control.start(pid, sampling, stale_files.mend, passing=not args.keep)
        stay = args.keep or started.how == "preloaded"
        ending = Ending(pid, stay=stay, duration=args.duration, interrupted=interrupted, gc=args.gc, say=say)
        # Before any output: a user without the right to record gets one line.
        with (
            sole_recorder(started.live_file, pid, sampling_options.asked(args)),
            ProgressLine(f"recording PID {pid}") as progress,
        ):
            for note in started.notes:
                say(note)
            try:
                outcome = record(
                    started.live_file,
                    output,
                    last_reading=None if args.duration is None else args.duration - _LAST_READING_SECONDS,
                    every=args.every,
                    stop=ending.due,
                    collected=lambda: ending.collected,
                    on_progress=progress,
                    owners=owners_reader(),
                    collections=CollectionLog,
                    keep_arguments=args.keep_arguments,
                    beside=jfr_options.beside(args),
                )
            except BaseException:
                ending.detach()
                raise
    cut_short = outcome.ended == "detached" and not ending.detached
    if args.json:
        result = {
            "schema": "offheap.attach/1",
            "pid": pid,
            "recording": str(output),
            "seconds": round(outcome.seconds, 3),
            "probe": started.how,
            "ended": outcome.ended,
            "cut_short": cut_short,
            "probe_left": ending.stuck,
            "java_heap": outcome.java_heap.state if outcome.java_heap else None,
        }
        print(json.dumps(result, indent=2))
        return int(ending.stuck)
    left = {
        "recording": "the probe still records",
        "detached": "another command stopped the probe (offheap detach)"
        if cut_short
        else "the probe is stopped",
        "exited": "the process exited",
        "killed": "the process was killed",
    }[outcome.ended]
    say_not_followed(outcome)
    print(f"recorded PID {pid} for {format_duration(outcome.seconds)}; {left}")
    shown = printable(str(output))
    print(f"recording: {shown}\nnext: offheap leaks {shown}")
    return int(ending.stuck)


def default_output(pid: int) -> Path:
    """NAME-PID.offheap in the working directory, with a number behind it if something has that name."""
    from offheap.inspect import discovery
    from offheap.recording.storage.output_name import free_name

    jvm = discovery.find(pid)
    main = (jvm.main if jvm else "").removesuffix(".jar").rpartition("/")[2].rpartition(".")[2]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", main).strip("-") or "jvm"
    return free_name(f"{name[:_LONGEST_NAME]}-{pid}")
