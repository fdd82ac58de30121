"""Memcheck's XML, protocols 4 and 5: docs/internals/xml-output-protocol4.txt of Valgrind.

Elements that are read, below <valgrindoutput>:

    <pid>  <args><argv><exe>
    <error>
      <kind>Leak_DefinitelyLost</kind>
      <xwhat><text>  <leakedbytes>  <leakedblocks>
      <stack><frame><ip> <obj> <fn> <dir> <file> <line>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.reports import valgrind_frames
from offheap.formats.imported.stack_tables import StackTable, add_frame
from offheap.recording.model import Frame

_KINDS = {
    "Leak_DefinitelyLost": "definitely lost",
    "Leak_IndirectlyLost": "indirectly lost",
    "Leak_PossiblyLost": "possibly lost",
    "Leak_StillReachable": "still reachable",
}
_DIRECT = re.compile(r"\(([\d,.]{1,24}) direct")
_DEEPEST = 64  # elements in one another; the protocol has ten
_MOST_NAMES = 1000  # of elements and attributes, which expat keeps; the protocol has sixty
_LONGEST_TEXT = 1 << 20  # characters of one element: as of a line
_OF_FRAME = frozenset(["ip", "obj", "fn", "dir", "file", "line"])
_OF_ERROR = frozenset(["kind", "text", "leakedbytes", "leakedblocks"])
# A loss record and a frame of it in memory, in the text as well.
LOSS_BYTES, FRAME_BYTES = 300, 250


@dataclass(frozen=True)
class LossRecord:
    """A loss record: `direct` bytes, where the record says so, else 0, are those of `blocks` themselves."""

    kind: str
    bytes: int
    direct: int
    blocks: int
    frames: Sequence[Frame]
    place: str


@dataclass
class Reading:
    """What a file says; `reports`: how many leak reports it has."""

    losses: list[LossRecord] = field(default_factory=list)
    pid: int = 0
    program: str = ""
    reports: int = 0


def recognises(head: str) -> bool:
    """Whether the text begins as Valgrind's XML of Memcheck."""
    start = head.lstrip()[:400]
    return start.startswith("<?xml") and "<valgrindoutput>" in start and "memcheck" in start


def read(path: Path, stacks: StackTable) -> Reading:
    """UserError with the line where the XML is damaged, or where it declares a document type.

    stacks  is charged for what is kept
    """
    handler = _Handler(path, stacks)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.characters
    # Entities are declared in a document type: without one nothing can be multiplied.
    parser.StartDoctypeDeclHandler = handler.refuse
    handler.parser = parser
    try:
        for part in source.parts(path, source.TIMES_TEXT):
            data = part.data[:-1] if part.cut else part.data
            parser.Parse(data.decode("utf-8", "replace"), False)
        parser.Parse("", True)
    except expat.ExpatError as error:
        raise source.fault(
            path, f"line {error.lineno}", f"damaged XML ({expat.ErrorString(error.code)})"
        ) from None
    handler.reading.reports = 1
    return handler.reading


class _Handler:
    def __init__(self, path: Path, stacks: StackTable) -> None:
        self._path, self._stacks_of_all = path, stacks
        self.reading = Reading()
        self.parser: expat.XMLParserType | None = None
        self._way: list[str] = []
        self._text = ""
        self._error: dict[str, str] = {}
        self._frame: dict[str, str] = {}
        self._frames: list[Frame] = []
        self._stacks = 0

    def start(self, name: str, attributes: object) -> None:
        self._way.append(name)
        self._text = ""
        if len(self._way) > _DEEPEST:
            raise self._fault(f"more than {_DEEPEST} elements in one another")
        if self.parser and len(self.parser.intern) > _MOST_NAMES:
            raise self._fault(f"more than {_MOST_NAMES:,} names of elements")
        if name == "error":
            self._error, self._frames, self._stacks = {}, [], 0
        elif name == "frame":
            self._frame = {}
        elif name == "stack":
            self._stacks += 1

    def characters(self, data: str) -> None:
        # The text of elements that are not read, such as a program's own messages, may have any length.
        if len(self._text) < _LONGEST_TEXT:
            self._text += data

    def end(self, name: str) -> None:
        parent = self._way[-2] if len(self._way) > 1 else ""
        text = self._text.strip()
        if parent == "frame" and name in _OF_FRAME:
            self._frame[name] = text
        elif parent in ("error", "xwhat") and name in _OF_ERROR:
            self._error[name] = text
        elif parent == "valgrindoutput" and name == "pid" and text.isdigit() and len(text) < 11:
            self.reading.pid = int(text)
        elif parent == "argv" and name == "exe":
            self.reading.program = text
        if name == "frame" and self._stacks == 1:
            self._stacks_of_all.charge(FRAME_BYTES)
            add_frame(self._frames, self._named(), self._path, self._line())
        elif name == "error":
            self._loss()
        self._way.pop()
        self._text = ""

    def refuse(self, *declared: object) -> None:
        raise self._fault("declares a document type, which Valgrind's XML does not")

    def _named(self) -> Frame:
        one = self._frame
        line = one.get("line", "")
        folder = f"{one['dir']}/" if one.get("dir") and one.get("file") else ""
        return valgrind_frames.of(
            one.get("ip", "").removeprefix("0x"),
            one.get("fn", ""),
            one.get("obj", ""),
            folder + one.get("file", ""),
            int(line) if line.isdigit() and len(line) < 10 else 0,
        )

    def _loss(self) -> None:
        kind = _KINDS.get(self._error.get("kind", ""))
        if kind is None:
            return
        try:
            size, blocks = int(self._error["leakedbytes"]), int(self._error["leakedblocks"])
        except (KeyError, ValueError):
            raise self._fault("a leak without leakedbytes and leakedblocks") from None
        self._stacks_of_all.charge(LOSS_BYTES)
        direct = _DIRECT.search(self._error.get("text", ""))
        self.reading.losses.append(
            LossRecord(
                kind,
                max(size, 0),
                int(re.sub(r"\D", "", direct[1]) or 0) if direct else 0,
                max(blocks, 0),
                self._frames,
                f"line {self._line()}",
            )
        )

    def _line(self) -> int:
        return self.parser.CurrentLineNumber if self.parser else 0

    def _fault(self, what: str) -> UserError:
        return source.fault(self._path, f"line {self._line()}", what)
