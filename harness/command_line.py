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
from harness.warm_command import warm


def offheap(*arguments: str | os.PathLike[str]) -> list[str]:
    """The command line of `offheap` as this interpreter has it."""
    return [sys.executable, "-m", "offheap", *(os.fspath(argument) for argument in arguments)]


def quiet_environment() -> dict[str, str]:
    """This process's environment without what starts the probe."""
    return {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "OFFHEAP")}


def run_offheap(*arguments: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs `offheap`, which must end with the exit status `expect`."""
    outcome = warm(*map(str, arguments), env=quiet_environment())
    assert outcome.returncode == expect, outcome.stderr + outcome.stdout
    return outcome


def offheap_check(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return warm("check", *arguments, cwd=folder)


def documented(schema: str) -> dict[str, Any]:
    """The example of docs/json.md that stands in one line."""
    text = (ROOT / "docs" / "json.md").read_text()
    (line,) = re.findall(rf'^{{"schema": "{schema}".*}}$', text, re.MULTILINE)
    value: dict[str, Any] = json.loads(line)
    return value
