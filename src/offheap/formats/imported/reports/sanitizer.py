"""LeakSanitizer's reports, alone or of AddressSanitizer.

The source of the format is LLVM's compiler-rt/lib/lsan/lsan_common.cpp (PrintReportForLeak) and
sanitizer_stacktrace_printer.cpp, DefaultFormat:

    ==9507==ERROR: LeakSanitizer: detected memory leaks

    Direct leak of 2190 byte(s) in 20 object(s) allocated from:
        #0 0x7f591ca13545 in malloc lsan_interceptors.cpp:75
        #1 0x5625318db166 in make_block /tmp/u.c:5:12
        #2 0x5625318db166  (/usr/lib/libfoo.so+0x1166) (BuildId: 01ab...)

    SUMMARY: LeakSanitizer: 2302 byte(s) leaked in 21 allocation(s).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.reports.loss_records import LossRecords
from offheap.formats.imported.samples import names
from offheap.formats.imported.stack_tables import StackTable, add_frame, profile, times_of
from offheap.recording.model import Frame

FORMAT = "lsan"

LACKS = (
    "LeakSanitizer reports blocks to which nothing points: memory that grows and is still pointed to is not "
    "in it",
    "LeakSanitizer reports what is left at one time: no births, no threads, no rate, no frees",
    "LeakSanitizer does not know the Java heap's references: blocks that Java objects alone point to are "
    "reported, and Java methods have no names",
)
CUT = "{name} ends without a SUMMARY line: the process was killed while it wrote, and leaks may be missing"

_HEADER = re.compile(r"==(\d{1,10})==\s?ERROR: LeakSanitizer: detected memory leaks")
_LEAK = re.compile(
    r"(?P<kind>Direct|Indirect) leak of (?P<bytes>\d{1,18}) byte\(s\) in (?P<blocks>\d{1,18}) object\(s\) "
    r"allocated from:"
)
_FRAME = re.compile(
    r"\s+#\d{1,4} 0x(?P<address>[0-9a-fA-F]{1,16})(?: in (?P<name>.+?))?(?:\s+(?P<place>\S.*))?"
)
_IN_MODULE = re.compile(
    r"(?P<before>.*?)\s*\((?P<path>[^()]+)\+0x(?P<offset>[0-9a-f]{1,16})\)(?: \(BuildId: [0-9a-f]*\))?"
)
_AT_LINE = re.compile(r"(?P<name>.+) (?P<file>\S+?):(?P<line>\d{1,9})(?::\d{1,9})?")
_CONTAINER_LOG = re.compile(r"^\S+ std(?:out|err) F ")  # a container's log has a prefix before each line


def recognises(head: bytes) -> bool:
    """Whether a leak report begins in the head: other output of the program may come first."""
    text = head.decode("utf-8", "replace")
    return "ERROR: LeakSanitizer: detected memory leaks" in text or _LEAK.search(text) is not None


def read(files: Sequence[Path]) -> Profile:
    """All leak reports of each file together: each process of a tree of processes writes one."""
    stacks = StackTable(files[0])
    times, start, lacking = times_of([source.modified(path) for path in files])
    lacks = dict.fromkeys([*LACKS, *([lacking] if lacking else [])])
    moments, pid = [], 0
    for path, time in zip(files, times, strict=True):
        records = LossRecords(path, stacks)
        pid, whole = _add(path, records)
        if not whole:
            lacks[CUT.format(name=path.name)] = None
        lacks.update(dict.fromkeys(records.lacks()))
        moments.append(stacks.at(time, records.totals))
    return profile(FORMAT, stacks, moments, lacks=list(lacks), start=start, pid=pid)


def _add(path: Path, records: LossRecords) -> tuple[int, bool]:
    """(PID, whether the last report has its summary)."""
    pid, whole, seen = 0, True, False
    leak: tuple[re.Match[str], int] | None = None
    frames: list[Frame] = []

    def close() -> None:
        if leak:
            match, at = leak
            kind = "directly lost" if match["kind"] == "Direct" else "indirectly lost"
            records.add(kind, frames, int(match["bytes"]), int(match["blocks"]), f"line {at}")

    number = 0
    for number, raw in source.lines(path):
        line = _CONTAINER_LOG.sub("", raw.rstrip("\r"))
        if header := _HEADER.search(line):
            pid, seen, whole = int(header[1]), True, False
        elif match := _LEAK.fullmatch(line.strip()):
            close()
            leak, frames, seen = (match, number), [], True
        elif leak and (shown := _FRAME.fullmatch(line)):
            add_frame(frames, _frame(line, shown), path, number)
        elif line.startswith("SUMMARY: "):
            whole = True
        elif not line.strip():
            close()
            leak = None
    close()
    if not seen:
        raise UserError(
            f"{path}, line {number}: no report of LeakSanitizer up to the end",
            "run the program with -fsanitize=leak or address, and ASAN_OPTIONS=detect_leaks=1",
        )
    return pid, whole


def _frame(line: str, match: re.Match[str]) -> Frame:
    address = match["address"].lower()
    rest = line.strip().split(" ", 2)[2].strip() if line.strip().count(" ") > 1 else ""
    rest = rest.removeprefix("in ").strip()
    if inside := _IN_MODULE.fullmatch(rest):
        module = inside["path"].rpartition("/")[2]
        name = inside["before"] or f"{module}+0x{inside['offset']}"
        return names.frame(name, module)
    if placed := _AT_LINE.fullmatch(rest):
        return names.frame(placed["name"], "", placed["file"], int(placed["line"]))
    return names.frame(rest) if rest else Frame(f"0x{address}", "native")
