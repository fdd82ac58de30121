"""Every report reads a recording with a full table of stacks: its leak has no stack."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.recordings.live_file_writer import LiveFileWriter, hook, java
from harness.warm_command import warm
from offheap.probe.contract import Loss, Mode, State

TICKS = 3000  # of 10 ms: half a minute
BLOCKS = 6000


@pytest.fixture(scope="module")
def live_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A leak of 200 blocks a second that is filed under "no stack", and a stack that keeps little."""
    writer = LiveFileWriter(mode=Mode.EXACT, losses={Loss.LOST_STACKS: BLOCKS, Loss.LOST_JAVA: 5})
    writer.state = State.EXITED
    writer.stop_monotonic_ns = writer.start_monotonic_ns + TICKS * 10**7
    method = writer.method("Lcom/example/Shop;", "open", "Shop.java", ((0, 10),))
    other = writer.stack(hook("malloc"), java(method, 2))
    numbers = np.arange(BLOCKS)
    writer.blocks(
        16 * (numbers + 1),
        np.full(BLOCKS, 7000),
        np.zeros(BLOCKS, "u8"),
        1 + numbers * TICKS // BLOCKS,
        np.zeros(BLOCKS, "u8"),
    )
    writer.block(1 << 40, 100, other, birth=10)
    writer.count(0, BLOCKS, BLOCKS, BLOCKS * 7000)
    writer.count(other, 1, 1, 100)
    return writer.write(tmp_path_factory.mktemp("full") / "full.live")


REPORTS: dict[str, tuple[Sequence[str], int]] = {
    "leaks": (("leaks", "FILE", "--all", "--full"), 0),
    "leaks --json": (("leaks", "FILE", "--json"), 0),
    "check": (("check", "FILE"), 1),
    "check --github": (("check", "FILE", "--github", "--junit", "OUT/junit.xml"), 1),
    "check --json": (("check", "FILE", "--json", "--max-growth", "1KiB/min"), 1),
    "check --max-live": (("check", "FILE", "--max-live", "1MiB"), 1),
    "check --baseline": (("check", "FILE", "--no-new-leaks", "--baseline", "FILE"), 0),
    "summary": (("summary", "FILE", "--full"), 0),
    "summary --json": (("summary", "FILE", "--json"), 0),
    "tree": (("tree", "FILE"), 0),
    "tree --json": (("tree", "FILE", "--json"), 0),
    "stats": (("stats", "FILE"), 0),
    "diff": (("diff", "FILE", "FILE", "--all"), 0),
    "diff --json": (("diff", "FILE", "FILE", "--json"), 0),
    "diff page": (("diff", "FILE", "FILE", "-o", "OUT/diff.html"), 0),
    "nmt": (("nmt", "FILE", "--detail"), 0),
    **{
        f"report .{kind}": (("report", "FILE", "-o", f"OUT/a.{kind}"), 0)
        for kind in ("html", "md", "json", "txt")
    },
}


@pytest.mark.parametrize("report", REPORTS)
def test_a_leak_without_a_stack_is_reported(report: str, live_file: Path, tmp_path: Path) -> None:
    arguments, status = REPORTS[report]
    places = {"FILE": str(live_file), "OUT": str(tmp_path)}
    words = [word.replace("OUT", places["OUT"]) if word != "FILE" else places["FILE"] for word in arguments]
    environment = {**os.environ, "COLUMNS": "100"}
    outcome = warm(*words, env=environment)
    assert (outcome.returncode, outcome.stderr) == (status, ""), outcome.stderr
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert outcome.stdout + written
    if report in ("leaks", "check", "summary", "report .md"):
        assert "no stack" in outcome.stdout + written
