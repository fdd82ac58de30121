"""What the commands read: a recording, or what PID|NAME|RECORDING means."""

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
    """The option that says whose packages are the application's."""
    parser.add_argument(
        "--app",
        action="append",
        type=_package,
        metavar="PACKAGE",
        help="look for the application's code in PACKAGE, such as com.acme; may be given again "
        "(default: the main class's, else what is neither the library's nor a known framework's)",
    )


def _package(text: str) -> str:
    name = text.removesuffix(".*").removesuffix(".")
    if not all(part.isidentifier() for part in name.replace("$", "_").split(".")):
        raise argparse.ArgumentTypeError(f"{text!r} is no Java package, such as com.acme")
    return name


def read(path: str, application: Sequence[str] | None = None) -> Recording:
    """Load a recording for a command that reports on it and ends; `application`: what --app says.

    Such a command makes a million small objects, none in a cycle and none to be freed before the end:
    the collector would go through all of them again and again, for a third of the command's time.
    """
    import gc

    from offheap.analysis.stacks.packages import with_application
    from offheap.recording import load
    from offheap.recording.allowance import ceiling

    gc.disable()
    with ceiling(Path(path)):
        loaded = load(path)
    return with_application(loaded, application or ())


def process_or_recording(text: str) -> int | Path:
    """The PID or the path that "PID|NAME|RECORDING" means; where it could mean both, says which it took."""
    from offheap.inspect.discovery import resolve_or_path

    meant, note = resolve_or_path(text)
    if note:
        print(f"offheap: {printable(note)}", file=sys.stderr)
    return meant
