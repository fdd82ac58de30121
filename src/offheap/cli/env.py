"""`offheap env`: the variables that start the probe in places without Python."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path

from offheap.cli import sampling_options
from offheap.cli.sweeping import sweep
from offheap.probe.options import environment_text, preload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the environment variables that load the probe into the next program, JVM or not.  "
        "The live file it leaves is a recording that every command reads.  "
        "The variables pass through scripts and launchers up to the first JVM."
    )
    parser.epilog = """examples:
  eval "$(offheap env)"; exec java -jar app.jar
  eval "$(offheap env --native --exact)"; exec ./server
  offheap env --json                         for a container image's ENV lines"""
    sampling_options.add_arguments(parser)
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="directory of the live file (default /dev/shm)"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the live file of a process that ended within 10 s with fewer than 1,000 samples, too",
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--native", action="store_true", help="record the next program, even if it is not a JVM"
    )
    scope.add_argument("--follow", action="store_true", help="record the next program and its children")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.env/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.probe.library import probe_library

    sweep()  # a start script waits for this command
    library = preload(probe_library(), os.environ.get("LD_PRELOAD", ""))
    words = environment_text(
        sampling_options.words(args), directory=args.dir, follow=args.follow, keep=args.keep
    )
    search = not (args.native or args.follow)
    if args.json:
        # In a container process 1 has the part of the shell.
        variables = {"LD_PRELOAD": library, "OFFHEAP": words + (",search=1" if search else "")}
        print(json.dumps({"schema": "offheap.env/1", "variables": variables}, indent=2))
    else:
        print(f"export LD_PRELOAD={shlex.quote(library)}")
        # The shell that evaluates this inserts its own PID: its children are recorded even if
        # they are no JVMs, their own children (the tools of a start script) are not.
        print(f"export OFFHEAP={shlex.quote(words)}" + (',search="$$"' if search else ""))
    return 0
