"""Methods of JFR as frames of stacks, each made once.

async-profiler writes native functions as methods of a class that is the library's name (flightRecorder.cpp,
Lookup::fillNativeMethodInfo); their frame type is "Native", "C++" or "Kernel".  The JDK's "Native" is a Java
method that is native; its files have no "Kernel".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.file.constants import Constants, Row, whole
from offheap.formats.imported.samples import names
from offheap.formats.imported.stack_tables import StackTable
from offheap.recording.model import MALLOC, Frame

METHODS, CLASSES, SYMBOLS, FRAME_TYPES = (
    "jdk.types.Method",
    "java.lang.Class",
    "jdk.types.Symbol",
    "jdk.types.FrameType",
)
TABLES: dict[str, Sequence[str]] = {
    METHODS: ("type", "name"),
    CLASSES: ("name",),
    SYMBOLS: ("string",),
    FRAME_TYPES: ("description",),
}
_OWN = "libasyncProfiler.so"  # its hooks are the innermost frames
_UNKNOWN = Frame("unknown method", "unknown")
_MOST_LINE = 1 << 20
_MOST_TYPES = 1 << 8
# As class files write the elements of arrays.
_PRIMITIVES = dict(
    zip("ZBCSIJFD", ("boolean", "byte", "char", "short", "int", "long", "float", "double"), strict=True)
)


def numbers(
    constants: Constants, keys: NDArray[np.uint64], stacks: StackTable, kind: int = MALLOC
) -> NDArray[np.uint32]:
    """The numbers of the stacks with these keys; an unknown key has the number of an empty stack."""
    return np.array([stacks.stack(its, kind) for its in places(constants, keys, stacks)], np.uint32)


def places(constants: Constants, keys: NDArray[np.uint64], stacks: StackTable) -> list[list[int]]:
    """The places of the frames of the stacks with these keys; an unknown key has one unknown method."""
    rows = [constants.stacks.frames.get(key) for key in keys.tolist()]
    found = [row for row in rows if row is not None]
    none = np.zeros((0, 3), np.uint64)
    every = np.concatenate([none, *found])
    methods, of_method = np.unique(every[:, 0], return_inverse=True)
    lines = np.minimum(every[:, 1], np.uint64(_MOST_LINE)).astype(np.int64)
    types = np.minimum(every[:, 2], np.uint64(_MOST_TYPES)).astype(np.int64)
    packed = (of_method.reshape(-1).astype(np.int64) << 32) | (lines << 10) | types
    distinct, back = np.unique(packed, return_inverse=True)
    names_of = _Names(constants)
    made = [
        names_of.frame(int(methods[value >> 32]), value >> 10 & (1 << 22) - 1, value & (1 << 10) - 1)
        for value in distinct.tolist()
    ]
    of_made = [stacks.frame(frame) for frame in made]
    of_frame = np.array(of_made, np.int64)[back.reshape(-1)] if made else np.zeros(0, np.int64)
    own = {place for frame, place in zip(made, of_made, strict=True) if frame.module == _OWN}
    result = []
    at = 0
    for row in rows:
        of_stack: list[int] = []
        if row is not None:
            of_stack = of_frame[at : at + len(row)].tolist()
            at += len(row)
            inner = 0
            while inner < len(of_stack) and of_stack[inner] in own:
                inner += 1
            of_stack = of_stack[inner:] or of_stack
        result.append(of_stack or [stacks.frame(_UNKNOWN)])
    return result


def class_frame(constants: Constants, key: int) -> Frame:
    """The class of an object, as recordings have it: `byte[]`, `java.lang.String`."""
    name = _Names(constants).class_name(key).replace("/", ".")
    dimensions = len(name) - len(name.lstrip("["))
    element = name[dimensions:]
    if dimensions:
        element = _PRIMITIVES.get(element, element.removeprefix("L").removesuffix(";"))
    element = element or "unknown class"
    return Frame(element + "[]" * dimensions, "class", element)


class _Names:
    def __init__(self, constants: Constants) -> None:
        self._tables = constants.tables
        self._text = constants.text
        texts = {key: self._text(row[0]) for key, row in constants.tables[FRAME_TYPES].items()}
        self._types = texts
        self._native = {"C++", "Kernel"} | ({"Native"} if "Kernel" in texts.values() else set())

    def frame(self, method: int, line: int, frame_type: int) -> Frame:
        row = self._tables[METHODS].get(method)
        if row is None:
            return _UNKNOWN
        owner, name = self.class_name(whole(row[0])), self._symbol(whole(row[1]))
        kind = self._types.get(frame_type, "")
        if kind in self._native:
            # `names` recognises a function of the kernel by the annotation at its end.
            return names.frame(f"{name}_[k]" if kind == "Kernel" else name, owner.rpartition("/")[2])
        full = f"{owner}.{name}" if owner and name else owner or name
        return names.frame(f"{full}_[j]", line=line, inlined=kind == "Inlined") if full else _UNKNOWN

    def class_name(self, key: int) -> str:
        """As the file has it: java/lang/String, [B, or a library of async-profiler's."""
        row: Row | None = self._tables[CLASSES].get(key)
        return self._symbol(whole(row[0])) if row else ""

    def _symbol(self, key: int) -> str:
        row = self._tables[SYMBOLS].get(key)
        return self._text(row[0]) if row else ""
