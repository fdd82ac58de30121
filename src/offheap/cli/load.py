"""Loads the input of commands: a recording, or the meaning of PID|NAME|RECORDING."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.report.text.printable import printable

if TYPE_CHECKING:
    from offheap.recording.model import Recording


def add_application(parser: argparse.ArgumentParser) -> None:
    """Adds the option that names the application's packages."""
    parser.add_argument(
        "--app",
        action="append",
        type=package,
        metavar="PACKAGE",
        help="the application's code is in PACKAGE, such as com.acme; may be given several times "
        "(default: the main class's, else what is neither the library's nor a known framework's)",
    )


def package(text: str) -> str:
    """An argument that names a Java package."""
    name = text.removesuffix(".*").removesuffix(".")
    if not all(part.isidentifier() for part in name.replace("$", "_").split(".")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a Java package, such as com.acme")
    return name


_taken: dict[str, int] = {}  # bytes of memory by path of a recording that was read


def read(path: str, application: Sequence[str] | None = None, *, beside: str | None = None) -> Recording:
    """Loads a recording for a command that reports on it and ends; `application`: the value of --app.

    `beside`: a recording that was read before and is still needed; both share one allowance of memory.

    Such a command makes a million small objects, without cycles, that live until its end: the collector
    would scan all of them again and again, for a third of the command's time.
    """
    import gc

    from offheap.analysis.stacks.packages import with_application
    from offheap.recording import load
    from offheap.recording.allowance import ceiling

    gc.disable()
    with ceiling(Path(path), _taken.get(beside or "", 0)) as reading:
        loaded = load(path)
    _taken[path] = reading.taken
    return with_application(loaded, application or ())


def process_or_recording(text: str) -> int | Path:
    """The PID or the path that "PID|NAME|RECORDING" means; if both are possible, prints the choice."""
    from offheap.inspect.discovery import resolve_or_path

    meant, note = resolve_or_path(text)
    if note:
        print(f"offheap: {printable(note)}", file=sys.stderr)
    return meant
