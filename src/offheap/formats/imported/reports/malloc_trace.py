"""SapMachine's MallocTrace: what `jcmd PID System.malloctrace dump` (17: `VM.malloctrace`) prints.

The source of the format is SapMachine's src/hotspot/os/posix/malloctrace/mallocTrace2.cpp, `dump` and
`dump_entry`:

    Stacks were collected via backtrace.
    Contains the currently allocated memory since enabling.
    Stack 1 of 123: 12,345 (12.1 k, 34.2 %) bytes, 12 (0.50 %) allocations
      [0x00007f3a0ccd584a]  os::malloc(unsigned long, MEMFLAGS)+0x4fa in libjvm.so
      [0x00007f39f7944f85]  <unknown code>

    Total allocated bytes: 36,096 (35.2 k)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples import names
from offheap.formats.imported.stack_tables import StackTable, Total, add_frame, profile, times_of
from offheap.recording.model import Frame

FORMAT = "sapmachine-malloctrace"

LACKS = (
    "MallocTrace counts from the time when it was enabled; what was allocated before is not in it, nor is "
    "mmap",
    "MallocTrace has totals by stack: no births, no threads, no RSS; with only-nth it counts one allocation "
    "in so many, and does not say so in the dump",
    "MallocTrace names Java methods only as far as the JVM prints the compiled code at an address",
)
EVERY = (
    "The dump has every allocation since enabling, freed ones too (track-free was off): nothing in it is "
    "proof of a leak"
)

_FIRST = re.compile(r"^Stacks were collected via .{1,60}\.$", re.MULTILINE)
_AMOUNT = r"(?:\*neg\* )?[\d,.' \u202f\u00a0]{1,30}"
_STACK = re.compile(
    rf"Stack \d{{1,9}} of \d{{1,9}}: (?P<bytes>{_AMOUNT}?)(?: \([^)]*\))? bytes, "
    rf"(?P<count>{_AMOUNT}?)(?: \([^)]*\))? allocations"
)
_FRAME = re.compile(r"\s*\[0x(?P<address>[0-9a-f]{1,16})\]\s*(?P<name>.*)")
_PLACE = re.compile(r"(?P<name>.*?)(?:\+0x[0-9a-f]+)? in (?P<module>\S.*)")
_JAVA = re.compile(r"(?P<class>(?:[\w$]+[./])+[\w$]+)::(?P<method>[\w$<>]+)")
_TOTAL = re.compile(rf"Total allocated bytes: (?P<bytes>{_AMOUNT}?)(?: \(.*)?")
_MOST = 1 << 56  # bytes or blocks of one stack
_UNKNOWN = "<unknown code>"


def recognises(head: bytes) -> bool:
    """Whether the head says how stacks were collected, and what the dump contains."""
    text = head.decode("utf-8", "replace")
    return _FIRST.search(text) is not None and "since enabling." in text


def read(files: Sequence[Path]) -> Profile:
    """The dump of each file, each a moment of the series."""
    stacks = StackTable(files[0])
    times, start, lacking = times_of([source.modified(path) for path in files])
    lacks = dict.fromkeys([*LACKS, *([lacking] if lacking else [])])
    moments = []
    for path, time in zip(files, times, strict=True):
        totals, every = _totals(path, stacks)
        if every:
            lacks[EVERY] = None
        moments.append(stacks.at(time, totals))
    return profile(FORMAT, stacks, moments, lacks=list(lacks), start=start)


def _totals(path: Path, stacks: StackTable) -> tuple[dict[int, Total], bool]:
    """(totals by stack, whether the dump says that it has freed blocks as well)."""
    totals: dict[int, Total] = {}
    frames: list[Frame] | None = None
    amount = Total(0, 0)
    whole = at = 0
    every = False

    def close() -> None:
        if frames is not None and amount.live_bytes:
            number = stacks.of_frames(frames or [Frame("no stack", "unknown")])
            old = totals.get(number, Total(0, 0))
            totals[number] = Total(old.live_blocks + amount.live_blocks, old.live_bytes + amount.live_bytes)

    for at, line in source.lines(path):
        if match := _STACK.fullmatch(line.strip()):
            close()
            frames = []
            amount = Total(_amount(path, at, match["count"]), _amount(path, at, match["bytes"]))
        elif frames is not None and (match := _FRAME.fullmatch(line.rstrip())):
            add_frame(frames, _frame(match["address"], match["name"].strip()), path, at)
        elif match := _TOTAL.fullmatch(line.strip()):
            whole = int(_amount(path, at, match["bytes"]))
        elif not line.strip():
            close()
            frames = None
        elif "Contains every allocation done" in line:
            every = True
    close()
    if not totals and not whole:
        raise source.fault(path, f"line {at}", "the dump ends before its first stack")
    rest = whole - sum(total.live_bytes for total in totals.values())
    if rest > 0:
        totals[stacks.of_frames([Frame("stacks that were not printed", "unknown")])] = Total(1.0, float(rest))
    return totals, every


def _amount(path: Path, line: int, text: str) -> float:
    """A count with a locale's separators; below zero, which a race of the trace can give, it is 0."""
    digits = re.sub(r"\D", "", text)
    value = int(digits or 0)
    if value > _MOST:
        raise source.fault(path, f"line {line}", "more bytes or blocks than an address space holds")
    return 0.0 if text.startswith("*neg*") else float(value)


def _frame(address: str, text: str) -> Frame:
    if not text or text == _UNKNOWN:
        return Frame(f"0x{address.lstrip('0') or '0'}", "native")
    if " in " not in text and (java := _JAVA.search(text)):
        return Frame(f"{java['class'].replace('/', '.')}.{java['method']}", "java")
    if placed := _PLACE.fullmatch(text):
        module = placed["module"].rpartition("/")[2]
        return names.frame(placed["name"] or f"{module} at 0x{address.lstrip('0')}", module)
    return names.frame(text)
