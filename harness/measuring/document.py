"""Tables of measurements in the documentation, each between two comments that name what wrote it."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def replace_section(document: Path, writer: str, lines: Sequence[str], title: str) -> None:
    """Replaces the section of `writer` by `lines`; a new document starts with `title`."""
    begin, end = f"<!-- {writer} -->", "<!-- end -->"
    text = document.read_text() if document.exists() else f"# {title}\n"
    section = "\n".join([begin, *lines, end])
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    replaced, count = pattern.subn(lambda _: section, text)
    document.write_text(replaced if count else f"{text.rstrip()}\n\n{section}\n")


def machine() -> str:
    """The machine and the day, in half a line."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    cpus = len(os.sched_getaffinity(0))
    kernel, libc = platform.release().split("-")[0], " ".join(platform.libc_ver())
    return (
        f"{model[1] if model else platform.machine()}, {cpus} CPUs, Linux {kernel}, {libc}, "
        f"{datetime.date.today().isoformat()}"
    )


def load() -> str:
    """The load of the machine, for figures from one that others use."""
    return f"load average {os.getloadavg()[1]:.0f}"
