"""`--jfr` and `--jfr-every` of the commands that record."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli.say import say
from offheap.errors import UserError
from offheap.quantities import parse_positive_duration

if TYPE_CHECKING:
    from offheap.recording.capture.companion import Companion, Companions

_EVERY_SECONDS = 10.0
_LEAST_SECONDS = 1.0  # the recorder's own snapshots are no closer


def add_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--jfr",
        action="store_true",
        help="write the events offheap.* into the JVM's JFR recordings, while any runs",
    )
    parser.add_argument(
        "--jfr-every",
        type=parse_positive_duration,
        metavar="TIME",
        help="time between these events (default 10s; implies --jfr)",
    )


def beside(args: argparse.Namespace) -> Companions | None:
    """What `record` runs beside itself; None without --jfr."""
    every = args.jfr_every
    if every is None and not args.jfr:
        return None
    if every is not None and every < _LEAST_SECONDS:
        raise UserError(f"--jfr-every must be {_LEAST_SECONDS:g}s or more", "give a time such as 10s")

    def begin(pid: int, recording: Path) -> Companion:
        from offheap.jfr.sender import JfrSender

        return JfrSender(pid, recording, every or _EVERY_SECONDS, say)

    return begin
