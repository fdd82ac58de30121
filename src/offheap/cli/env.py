"""`offheap env`: the variables that start the probe where there is no Python."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path

from offheap.errors import UserError
from offheap.quantities import parse_size

DEFAULT_INTERVAL = 512 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the environment variables that load the probe into the next program, JVM or not.  "
        "The live file it leaves is a recording that every command reads."
    )
    parser.epilog = """examples:
  eval "$(offheap env)"; exec java -jar app.jar
  offheap env --exact --dir /var/tmp
  offheap env --json"""
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--interval",
        type=parse_size,
        default=DEFAULT_INTERVAL,
        metavar="SIZE",
        help="mean bytes between samples (default 512KiB)",
    )
    size.add_argument("--exact", action="store_true", help="record every block")
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="where the live file is made (default /dev/shm)"
    )
    parser.add_argument("--follow", action="store_true", help="children of the recorded program, too")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.env/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.jvm.library import probe_library

    variables = {
        "LD_PRELOAD": preload(probe_library(), os.environ.get("LD_PRELOAD", "")),
        "OFFHEAP": options(args.interval, exact=args.exact, directory=args.dir, follow=args.follow),
    }
    if args.json:
        print(json.dumps({"schema": "offheap.env/1", "variables": variables}, indent=2))
    else:
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
    return 0


def preload(library: Path, before: str) -> str:
    """LD_PRELOAD with the probe in front of what is there: it chains to an allocator behind it."""
    if any(c in " :" for c in str(library)):
        # ld.so(8) splits at both and knows no quoting.
        raise UserError(
            f"the probe's path holds a space or a colon, which LD_PRELOAD cannot name: {library}",
            "install offheap, or copy liboffheap.so, elsewhere",
        )
    others = [word for word in before.replace(":", " ").split() if word != str(library)]
    return ":".join([str(library), *others])


def options(interval: int, *, exact: bool, directory: Path | None, follow: bool) -> str:
    """The text of the OFFHEAP variable (probe/options.h)."""
    if interval == 0 and not exact:
        raise UserError("--interval 0 means nothing", "use --exact to record every block")
    words = ["exact" if exact else f"interval={interval}"]
    if directory is not None:
        if "," in str(directory):
            raise UserError(
                f"the probe cannot take a folder with a comma: {directory}", "choose another --dir"
            )
        words.append(f"dir={directory.absolute()}")
    if follow:
        words.append("follow")
    return ",".join(words)
