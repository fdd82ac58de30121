"""Lines beside a command's output, on standard error."""

from __future__ import annotations

import sys

from offheap.report.text.printable import printable


def say(line: str) -> None:
    print(f"offheap: {printable(line)}", file=sys.stderr, flush=True)
