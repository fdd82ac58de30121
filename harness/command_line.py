"""Command lines of offheap."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.paths import ROOT


def offheap(*arguments: str | os.PathLike[str]) -> list[str]:
    """The command line of `offheap` as this interpreter has it."""
    return [sys.executable, "-m", "offheap", *(os.fspath(argument) for argument in arguments)]


def offheap_check(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        offheap("check", *arguments),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )


def documented(schema: str) -> dict[str, Any]:
    """The example of docs/json.md that stands in one line."""
    text = (ROOT / "docs" / "json.md").read_text()
    (line,) = re.findall(rf'^{{"schema": "{schema}".*}}$', text, re.MULTILINE)
    value: dict[str, Any] = json.loads(line)
    return value
