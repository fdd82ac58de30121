"""The live memory in the peers' own reports at the end, as collapsed stacks.

async-profiler's JFR through its jfrconv, jemalloc's and gperftools's heap profiles through their pprof,
heaptrack's raw output through its interpreter and heaptrack_print.  No figure is corrected: it is
what the peer's report shows, scaled if the peer scales it.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.peers import maven
from harness.peers.variants import Variant

CONVERTER = "tools.profiler:jfr-converter:4.5"
TIME_LIMIT_SECONDS = 300


@dataclass(frozen=True)
class Held:
    """Live memory allocated through one function; `blocks` is None if the report has only bytes."""

    blocks: float | None
    bytes: float


@dataclass(frozen=True)
class Reader:
    """`java` runs async-profiler's converter, which is fetched into `peers`."""

    java: Path
    peers: Path

    def held(self, variant: Variant, folder: Path, program: Path, function: str) -> Held | None:
        """None if the peer left nothing, or its reader is not on the machine."""
        stacks = self._stacks(variant.name.split()[0], folder, program)
        if stacks is None:
            return None
        in_bytes, in_blocks = stacks
        return Held(
            None if in_blocks is None else _through(function, in_blocks), _through(function, in_bytes)
        )

    def _stacks(self, peer: str, folder: Path, program: Path) -> tuple[str, str | None] | None:
        """Collapsed stacks by bytes, and by blocks."""
        if peer == "async-profiler":
            return self._converted(folder / "profile.jfr", folder / "collapsed")
        if peer == "heaptrack":
            return _interpreted(folder)
        # The last one: gperftools also writes one for each GiB that was allocated.
        dump = max(folder.glob("*.heap"), default=None)
        tool = shutil.which("jeprof" if peer == "jemalloc" else "google-pprof")
        if dump is None or tool is None:
            return None
        pprof = [tool, "--collapsed", "--show_bytes"]
        return _run(*pprof, "--inuse_space", program, dump), _run(*pprof, "--inuse_objects", program, dump)

    def _converted(self, profile: Path, output: Path) -> tuple[str, str] | None:
        converter = maven.fetch(CONVERTER, self.peers)
        if not converter.exists() or not profile.exists():
            return None
        # Without --tail 0 the converter drops the allocations of the last tenth of the time.
        options = ["-o", "collapsed", "--nativemem", "--leak", "--tail", "0"]
        _run(self.java, "-jar", converter, *options, "--total", profile, output)
        in_bytes = output.read_text()
        _run(self.java, "-jar", converter, *options, profile, output)
        return in_bytes, output.read_text()


def _interpreted(folder: Path) -> tuple[str, None] | None:
    tool, interpreter = (
        shutil.which("heaptrack_print"),
        Path("/usr/lib/heaptrack/libexec/heaptrack_interpret"),
    )
    raw, data, output = folder / "heaptrack.raw", folder / "heaptrack", folder / "collapsed"
    if tool is None or not interpreter.exists() or not raw.exists():
        return None
    with open(raw) as source:
        data.write_text(_run(interpreter, stdin=source))
    _run(tool, "-f", data, "-p0", "-a0", "-T0", "--flamegraph-cost-type", "leaked", "-F", output)
    return output.read_text(), None


def _through(function: str, stacks: str) -> float:
    """The sum over the stacks that have the function in them."""
    lines = (line.rpartition(" ") for line in stacks.splitlines())
    return sum(float(figure) for stack, _, figure in lines if function in stack)


def _run(*command: str | Path, stdin: IO[str] | None = None) -> str:
    outcome = subprocess.run(
        command, stdin=stdin, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, check=True
    )
    return outcome.stdout
