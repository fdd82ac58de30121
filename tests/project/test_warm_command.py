"""A command in a fork of the process with the modules says and ends as one that is started anew."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.recordings.stored import stored
from harness.warm_command import warm


@pytest.mark.parametrize(
    "arguments",
    [("summary", "app.offheap"), ("leaks", "app.offheap", "--json"), ("leaks", "absent"), ("lekas",)],
)
def test_the_same_words_and_status(arguments: tuple[str, ...], tmp_path: Path) -> None:
    stored(tmp_path / "app.offheap")
    variables = {**os.environ, "COLUMNS": "60"}
    anew = subprocess.run(offheap(*arguments), cwd=tmp_path, env=variables, capture_output=True, text=True)
    forked = warm(*arguments, cwd=tmp_path, env=variables)
    assert (forked.returncode, forked.stdout, forked.stderr) == (anew.returncode, anew.stdout, anew.stderr)
    assert forked.stdout or forked.stderr
