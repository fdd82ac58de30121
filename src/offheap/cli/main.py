"""The `offheap` command: finds the subcommand, loads only its module, turns errors into status 2."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence

from offheap import __version__
from offheap.errors import UserError

# name -> one line of help.  The module is offheap.cli.<name> and offers
#   add_arguments(parser: argparse.ArgumentParser) -> None   (also sets parser.epilog: examples)
#   run(args: argparse.Namespace) -> int                     exit status
COMMANDS: dict[str, str] = {
    "demo": "leak on purpose, find it, write the report",
    "run": "start a program under the probe and record it",
    "attach": "load the probe into a running JVM, record, leave it clean again",
    "detach": "take the probe out of a running JVM",
    "ps": "the JVMs of this machine and whether they are recorded",
    "env": "print the variables that start the probe where there is no Python",
    "leaks": "suspects: sites whose old blocks survive and whose live bytes grow",
    "summary": "live bytes by allocating site",
    "tree": "live bytes as a tree of callers",
    "stats": "what was recorded, over what time, and what was lost",
    "report": "write one self-contained HTML file",
    "completion": "print a shell completion script",
}
