"""Ways to profile the live Java heap of a program: offheap in its modes, async-profiler, JFR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.command_line import offheap

_OLD_OBJECTS = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0">
  <event name="jdk.OldObjectSample">
    <setting name="enabled">true</setting>
    <setting name="stackTrace">true</setting>
    <setting name="cutoff">0 ns</setting>
  </event>
</configuration>
"""


@dataclass(frozen=True)
class HeapProfiler:
    """One way to run a JVM.

    recorder  words of `offheap run`; None: it does not run under offheap
    options   of the JVM; {folder} is an empty folder of the run
    library   without this file the way is absent
    """

    name: str
    recorder: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    library: Path | None = None

    @property
    def present(self) -> bool:
        return self.library is None or self.library.exists()

    def command(self, java: Sequence[str], folder: Path) -> list[str]:
        """`java` is the JVM and its arguments."""
        if self is JFR:
            (folder / "old-objects.jfc").write_text(_OLD_OBJECTS)
        options = [option.format(folder=folder) for option in self.options]
        command = [java[0], *options, *java[1:]]
        if self.recorder is None:
            return command
        return offheap("run", *self.recorder, "-o", folder / "run.offheap", "--", *command)


BASE = HeapProfiler("nothing")
NATIVE = HeapProfiler("offheap, native memory only", ())
JAVA_HEAP = HeapProfiler("offheap --java-heap", ("--java-heap",))
FIXED = HeapProfiler("offheap --java-heap-interval 512KiB", ("--java-heap-interval", "512KiB"))
JFR = HeapProfiler(
    "JFR OldObjectSample",
    options=(
        "-Xlog:disable",  # its message at the start comes before the program's first line
        "-XX:StartFlightRecording=settings={folder}/old-objects.jfc,filename={folder}/flight.jfr",
    ),
)


def async_profiler(library: Path) -> HeapProfiler:
    command = "start,event=alloc,alloc=512k,live,file={folder}/profile.jfr"
    return HeapProfiler(
        "async-profiler alloc=512k,live", options=(f"-agentpath:{library}={command}",), library=library
    )
