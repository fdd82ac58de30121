"""`offheap attach`: loads the probe into a running JVM, records, and stops the probe."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from offheap.cli import rate
from offheap.cli.run import add_keep_arguments
from offheap.errors import UserError
from offheap.quantities import format_duration, parse_duration, parse_positive_duration
from offheap.report.text import printable

# Before the end, so that the probe, whose memory is part of RSS, is still there when RSS is looked at.
_LAST_LOOK_SECONDS = 0.5


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
    rate.add_arguments(parser)
    parser.add_argument(
        "--gc",
        action="store_true",
        help="run a full garbage collection at the end and judge what survived it; it pauses the JVM",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the probe recording when this command ends"
    )
    add_keep_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.attach/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.jvm import discovery, probe
    from offheap.jvm.collection_log import CollectionLog
    from offheap.proc import oom
    from offheap.recording import stale_files
    from offheap.recording.output import check_output
    from offheap.recording.recorder import record
    from offheap.recording.sole_recorder import sole_recorder
    from offheap.watch import glance

    sampling = rate.words(args)
    rate.allow_reading(sampling)
    if args.every is not None and args.every <= 0:
        raise UserError("--every must be greater than 0", "give a time such as 1s")
    pid = discovery.resolve(args.target)
    output = args.output or default_output(pid)
    check_output(output)

    from offheap.cli.progress import ProgressLine

    stale_files.sweep()
    oom.volunteer()
    with interruptible() as interrupted:
        started = probe.start(pid, sampling, stale_files.mend, passing=not args.keep)
        stay = args.keep or started.how == "preloaded"
        ending = _Ending(pid, stay=stay, duration=args.duration, interrupted=interrupted, gc=args.gc)
        # Before anything is said: who may not record gets one line.
        with (
            sole_recorder(started.live_file, pid, rate.asked(args)),
            ProgressLine(f"recording PID {pid}") as progress,
        ):
            for note in started.notes:
                print(f"offheap: {printable(note)}", file=sys.stderr)
            try:
                outcome = record(
                    started.live_file,
                    output,
                    last_look=None if args.duration is None else args.duration - _LAST_LOOK_SECONDS,
                    every=args.every,
                    stop=ending.due,
                    collected=lambda: ending.collected,
                    on_progress=progress,
                    owners=glance(),
                    collections=CollectionLog,
                    keep_arguments=args.keep_arguments,
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
    print(f"recorded PID {pid} for {format_duration(outcome.seconds)}; {left}")
    shown = printable(str(output))
    print(f"recording: {shown}\nnext: offheap leaks {shown}")
    return int(ending.stuck)


class _Ending:
    """Ends a recording: the probe is stopped first, so that the recorder sees its last state at rest."""

    def __init__(
        self, pid: int, *, stay: bool, duration: float | None, interrupted: list[int], gc: bool
    ) -> None:
        self._gc = gc
        self.collected = False
        self.detached = False  # by us
        self.stuck = False  # the probe is still in the process, against what was asked for
        self._pid = pid
        self._in = not stay
        self._deadline = time.monotonic() + duration if duration is not None else float("inf")
        self._interrupted = interrupted

    def due(self) -> bool:
        """Whether the recorder shall stop by itself; the first time the stopped live file tells it to."""
        if not self._interrupted and time.monotonic() < self._deadline:
            return False
        if self._gc:
            self._gc = False
            self.collected = collect(self._pid)
        return not self.detach()

    def detach(self) -> bool:
        """Takes the probe out and returns True, the first time; says so when it cannot."""
        if not self._in:
            return False
        self._in = False
        from offheap.jvm import probe
        from offheap.jvm.attach_listener import NoProcess

        try:
            probe.detach(self._pid)
        except (NoProcess, probe.NotRecording):
            return False
        except UserError as error:
            mend = f"then take the probe out: offheap detach {self._pid}"
            print(f"offheap: {printable(str(error))}; {mend}", file=sys.stderr)
            self.stuck = True
            return False
        self.detached = True
        return True


def collect(pid: int) -> bool:
    """Asks for a garbage collection; says so and returns False when there is none: no reason to lose data."""
    from offheap.jvm import collection
    from offheap.jvm.attach_listener import NoProcess

    try:
        collection.collect(pid)
    except NoProcess:
        return False
    except UserError as error:
        print(f"offheap: no collection: {printable(str(error))}", file=sys.stderr)
        return False
    return True


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Collects SIGINT, SIGTERM and SIGHUP in a list: a probe must not be left behind half-way."""
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {
        number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def default_output(pid: int) -> Path:
    """NAME-PID.offheap in the working directory, with a number behind it when that is taken."""
    from offheap.jvm import discovery

    jvm = discovery.find(pid)
    main = (jvm.main if jvm else "").removesuffix(".jar").rpartition("/")[2].rpartition(".")[2]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", main).strip("-") or "jvm"
    numbers = [""] + [f"-{n}" for n in range(2, 1000)]
    candidates = (Path(f"{name[:64]}-{pid}{number}.offheap") for number in numbers)
    return next(path for path in candidates if not path.exists())
