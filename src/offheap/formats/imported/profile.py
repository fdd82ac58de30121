"""What a reader of another tool's files gives: the tables of a recording, as far as the files have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from offheap.recording.model import LIVE, PROCESS, SERIES, Frame, JavaHeap, Module


@dataclass(frozen=True)
class Profile:
    """One file or a series of files of one program.  Times are seconds since the first of them.

    format          as `offheap import --format` names it: "jemalloc"
    frames          distinct
    stacks          indices into frames, innermost first; stack numbers of the tables are places here plus 1
    kinds           by stack: MALLOC, MMAP or JAVA
    live            LIVE: what is live in the last file, a row a block that was sampled or counted
    series          SERIES, by time: for each file the stacks that changed
    process         PROCESS, by time: a row a file; rss_bytes is 0 where a file does not tell it
    interval_bytes  mean bytes between samples; 0: every block is counted
    lacks           sentences: what the files do not have, and what follows for the answers
    start           of the first file, seconds since the epoch; 0.0: not known
    threads         by LIVE["thread"]
    java_heap       how Java objects were followed, whose rows are of kind JAVA; None: there are none
    births          whether `live` has the births of blocks; if not they are when a file first had the block
    """

    format: str
    frames: list[Frame]
    stacks: list[tuple[int, ...]]
    kinds: NDArray[np.uint8]
    live: NDArray[np.void]
    series: NDArray[np.void]
    process: NDArray[np.void]
    interval_bytes: int = 0
    lacks: tuple[str, ...] = ()
    start: float = 0.0
    births: bool = False
    pid: int = 0
    program: str = ""
    modules: list[Module] = field(default_factory=list)
    java_heap: JavaHeap | None = None
    java_version: str = ""
    threads: list[str] = field(default_factory=lambda: ["other threads"])

    def __post_init__(self) -> None:
        assert (self.live.dtype, self.series.dtype, self.process.dtype) == (LIVE, SERIES, PROCESS)
        assert len(self.kinds) == len(self.stacks)


class Reader(Protocol):
    """A module of this room: `heap.py` of jemalloc has these three."""

    FORMAT: str  # as `--format` names it

    def recognises(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes, after decompression, is of this format."""

    def read(self, files: Sequence[Path]) -> Profile:
        """The files of a series, by time.  UserError names the file and the line or offset of a fault."""
