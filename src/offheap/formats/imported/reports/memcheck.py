"""Memcheck's leak reports: valgrind --leak-check=full, as text (--log-file) or XML (--xml=yes).

The source of the text is Valgrind's memcheck/mc_errors.c (pp_LossRecord) and mc_leakcheck.c, of the XML
docs/internals/xml-output-protocol4.txt:

    ==9497== 560 (112 direct, 448 indirect) bytes in 1 blocks are definitely lost in loss record 2 of 3
    ==9497==    at 0x48417B4: malloc (in /usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so)
    ==9497==    by 0x1091C6: chain (u.c:7)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.reports import memcheck_xml
from offheap.formats.imported.reports.loss_records import LossRecords
from offheap.formats.imported.reports.memcheck_xml import FRAME_BYTES, LOSS_BYTES, LossRecord
from offheap.formats.imported.reports.valgrind_frames import frame
from offheap.formats.imported.stack_tables import StackTable, add_frame, profile, times_of
from offheap.recording.model import Frame

FORMAT = "memcheck"

LACKS = (
    "Memcheck reports what is left at one time: no births, no threads, no rate; a series of reports has a "
    "rate",
    "Memcheck names no Java methods: their frames are addresses; blocks that Java memory alone points to may "
    "be lost to it, because it does not know the Java heap's references",
    "Memcheck does not see what the JVM maps by itself, nor malloc replaced by an allocator that is linked in"
    "",
)
NO_REACHABLE = (
    "The report has no blocks that are still reachable (--show-leak-kinds=all has them): a leak that "
    "something still points to is not in it"
)
SEVERAL = "{name} holds {count} leak reports: the last of them is taken"

_LINE = re.compile(r"(?:==|--)(\d{1,10})(?:==|--) ?(.*)")
_RECORD = re.compile(
    r"(?P<bytes>[\d,.]{1,24}) (?:\((?P<direct>[\d,.]{1,24}) direct, (?P<indirect>[\d,.]{1,24}) indirect\) )?"
    r"bytes in (?P<blocks>[\d,.]{1,24}) blocks? (?:are|is) "
    r"(?P<kind>[a-z]+ (?:lost|reachable)) in loss record .*"
)
_FRAME = re.compile(r" {2,}(?:at|by) (0x[0-9A-Fa-f]{1,16}: .*)")
_SUMMARY = re.compile(r"LEAK SUMMARY:|All heap blocks were freed -- no leaks are possible")
_COMMAND = "Command: "


def recognises(head: bytes) -> bool:
    """Whether the file is Memcheck's XML, or text in which Memcheck or Valgrind names itself."""
    text = head.decode("utf-8", "replace")
    if memcheck_xml.recognises(text):
        return True
    return re.match(
        r"(==\d+== .*\n)*==\d+== (Memcheck, a memory error detector|HEAP SUMMARY)", text
    ) is not None or (re.search(r"^==\d+== .* in loss record \d", text, re.MULTILINE) is not None)


def read(files: Sequence[Path]) -> Profile:
    """The leak report at the end of each file."""
    stacks = StackTable(files[0])
    times, start, lacking = times_of([source.modified(path) for path in files])
    lacks = dict.fromkeys([*LACKS, *([lacking] if lacking else [])])
    moments, pid, program = [], 0, ""
    for path, time in zip(files, times, strict=True):
        head = source.head(path).decode("utf-8", "replace")
        reading = (memcheck_xml.read if memcheck_xml.recognises(head) else _text)(path, stacks)
        records = LossRecords(path, stacks)
        indirect = any(loss.kind == "indirectly lost" for loss in reading.losses)
        for loss in reading.losses:
            # Blocks that a lost block points to count with that block, unless they have records of their own.
            size = loss.direct if indirect and loss.direct else loss.bytes
            records.add(loss.kind, loss.frames, size, loss.blocks, loss.place)
        if not any(loss.kind == "still reachable" for loss in reading.losses):
            lacks[NO_REACHABLE] = None
        if reading.reports > 1:
            lacks[SEVERAL.format(name=path.name, count=reading.reports)] = None
        lacks.update(dict.fromkeys(records.lacks()))
        moments.append(stacks.at(time, records.totals))
        pid, program = reading.pid, reading.program
    return profile(FORMAT, stacks, moments, lacks=list(lacks), start=start, pid=pid, program=program)


def number(text: str) -> int:
    """`2,190`; a locale may group by points."""
    return int(re.sub(r"\D", "", text) or 0)


def _text(path: Path, stacks: StackTable) -> memcheck_xml.Reading:
    reading = memcheck_xml.Reading()
    loss: LossRecord | None = None
    frames: list[Frame] = []
    ended = False
    at = 0
    for at, raw in source.lines(path):
        match = _LINE.match(raw.rstrip("\r"))
        if match is None:  # the program's own output
            continue
        reading.pid, line = int(match[1]), match[2]
        if line.startswith(_COMMAND):
            reading.program = line[len(_COMMAND) :]
        elif _SUMMARY.search(line):
            reading.reports += 1
            ended = True
        elif found := _RECORD.fullmatch(line):
            if ended:  # a later report of the same run
                reading.losses, ended = [], False
            frames = []
            loss = LossRecord(
                found["kind"], number(found["bytes"]), number(found["direct"] or ""), number(found["blocks"]),
                frames, f"line {at}",
            )  # fmt: skip
            stacks.charge(LOSS_BYTES)
            reading.losses.append(loss)
        elif loss and (shown := _FRAME.fullmatch(line)):
            stacks.charge(FRAME_BYTES)
            add_frame(frames, frame(shown[1]), path, at)
        elif not line.strip():
            loss = None
    if not reading.reports:
        raise UserError(
            f"{path}, line {at}: the log ends without a leak report (LEAK SUMMARY)",
            "run valgrind with --leak-check=full and let the program end, or ask for one: vgdb leak_check "
            "full",
        )
    return reading
