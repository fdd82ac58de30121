"""`offheap live`: a recording, or a process under the probe, in the terminal while it grows."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli import sampling_options
from offheap.cli.load import add_application
from offheap.errors import UserError
from offheap.quantities import parse_duration
from offheap.report.text.printable import printable

if TYPE_CHECKING:
    from offheap.analysis.owners.results import OwnersGrowth
    from offheap.live.follower import Follower
    from offheap.probe.control import Started
    from offheap.recording.model import OwnersOverTime
    from offheap.report.tui.owners_screen import Owners


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show which sites hold memory and which grow, in a process that has the probe, in a live file, or in "
        "a recording, finished or not.  --attach loads the probe into a running JVM and stops it at the "
        "end.  Press ? for the keys."
    )
    parser.epilog = """examples:
  offheap live 4711                     a JVM that has the probe
  offheap live OrderService --attach    any running JVM
  offheap live app.offheap              a recording, finished or not"""
    parser.add_argument(
        "target",
        metavar="PID|NAME|RECORDING",
        help="a process, part of a main class or jar name, a recording, or a live file",
    )
    parser.add_argument("--attach", action="store_true", help="load the probe now and stop it at the end")
    sampling_options.add_arguments(parser, "with --attach: ")
    parser.add_argument(
        "--every", type=parse_duration, default=1.0, metavar="TIME", help="time between updates (default 1s)"
    )
    add_application(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(os.curdir),
        metavar="DIR",
        help="directory for exports (default: the current one)",
    )


def run(args: argparse.Namespace) -> int:
    if args.every <= 0:
        raise UserError(f"--every must be greater than 0, not {args.every:g}", "give a time such as 1s")
    words = sampling_options.words(args)
    if args.attach:
        sampling_options.allow_reading(words)
    if sampling_options.stated(args) and not args.attach:
        raise UserError(
            "--interval, --budget, --exact and --java-heap need --attach", "add --attach, or leave them out"
        )
    if not args.output.is_dir():
        raise UserError(f"{args.output} is not a folder", "make it, or give another one with -o")
    from offheap.report.text.output import check

    check(args.output / "export")
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UserError(
            "`offheap live` needs a terminal", "for a file or a pipe use `offheap leaks` or `offheap summary`"
        )
    from offheap.cli.load import process_or_recording
    from offheap.probe.live_files import stale_files

    pid = process_or_recording(args.target)
    if isinstance(pid, Path):
        if args.attach:
            raise UserError(f"{pid} is a recording, not a process", "leave --attach out")
        _show(pid, args)
        return 0
    stale_files.sweep()
    if not args.attach:
        _show(_live_file(pid), args)
        return 0
    with _attached(pid, args) as (started, interrupted):
        _show(started.live_file, args, lambda: bool(interrupted))
    return 0


def _show(path: Path, args: argparse.Namespace, stop: Callable[[], bool] | None = None) -> None:
    from offheap.inspect.over_time import jvm_counters
    from offheap.live.follower import Follower
    from offheap.recording.capture.live_source import follow

    with closing(follow(path, jvm_counters)) as source:
        print("offheap: reading symbols ...", end="\r", file=sys.stderr, flush=True)
        follower = Follower(source, args.app or ())
        view = follower.advance()
        print(" " * 40, end="\r", file=sys.stderr, flush=True)
        assert view is not None, "the first reading always finds something"
        from offheap.report.tui.app import LiveApp

        # Objects loaded so far stay: the collector need not scan them every few updates.
        gc.freeze()
        # Without the mouse the terminal's own selecting and copying still work.
        owners = owners_of(path, follower)
        app = LiveApp(follower, view, every=args.every, folder=args.output, stop=stop, owners=owners)
        try:
            app.run(mouse=False)
        finally:
            gc.unfreeze()  # else DuckDB's bindings complain on the terminal at exit about unfreed objects


def owners_of(path: Path, follower: Follower) -> Owners | None:
    """Inspects the process of a live file, or takes a recorder's readings; None when there is no process."""
    from offheap.inspect.over_time import RepeatedReading
    from offheap.probe.live_files.live_file import LiveFile
    from offheap.probe.live_files.recorded_process import find
    from offheap.recording.capture.info import elapsed

    if path.is_dir():
        return follower.owners
    with LiveFile(path) as live_file:
        pid, header = find(live_file.header), live_file.header
    if pid is None:
        return None
    read_owners, began = RepeatedReading(pid), elapsed(header, alive=True)

    def read() -> tuple[OwnersOverTime, OwnersGrowth]:
        seen = read_owners()
        over = replace(seen, times=seen.times + began)
        return over, follower.see(over, pid)

    return read


def _live_file(pid: int) -> Path:
    from offheap.probe.live_files import search

    found = [file for file in search.find(pid) if file.recording]
    if found:
        return found[0].path
    raise UserError(
        f"no probe records PID {pid}",
        f"add --attach to load it for as long as you watch, or record with `offheap attach {pid}`",
    )


@contextmanager
def _attached(pid: int, args: argparse.Namespace) -> Iterator[tuple[Started, list[int]]]:
    """The probe in the JVM while the context is open; a probe from before stays."""
    from offheap.jvm.listener.attach_listener import NoProcess
    from offheap.launch.ending import interruptible
    from offheap.probe import control
    from offheap.probe.live_files import stale_files
    from offheap.probe.live_files.live_file import LiveFile
    from offheap.probe.sole_recorder import sole_recorder

    with interruptible() as interrupted:
        started = control.start(pid, sampling_options.words(args), stale_files.mend, passing=True)
        ours = started.how == "started"
        try:
            with sole_recorder(started.live_file, pid, sampling_options.asked(args)):
                for note in started.notes:
                    print(f"offheap: {printable(note)}", file=sys.stderr)
                yield started, interrupted
        finally:
            if ours:
                try:
                    control.detach(pid)
                    _say(f"the probe in PID {pid} is stopped")
                except NoProcess:
                    _say(f"PID {pid} has ended")
                except control.NotRecording:
                    _say(f"another command stopped the probe in PID {pid} (offheap detach)")
                except UserError as error:
                    _say(f"{error}; then take the probe out: offheap detach {pid}")
                with suppress(OSError, UserError), LiveFile(started.live_file) as file:
                    file.remove()


def _say(line: str) -> None:
    # The terminal may be gone, and the rest must still run.
    with suppress(OSError):
        print(f"offheap: {printable(line)}", file=sys.stderr, flush=True)
