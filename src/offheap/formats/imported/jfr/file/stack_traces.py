"""The stacks of a chunk, read by whole columns: a large profile has a million frames in its stacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.file.cursor import Cursor
from offheap.formats.imported.jfr.file.metadata import ARRAY, BOOLEAN, INTEGER, Atom
from offheap.formats.imported.jfr.file.varints import Window

_BLOCK = 1 << 18  # integers that are read at one time
FRAME = ("method", "lineNumber", "type")  # what of a frame is kept


class StackTraces:
    """Frames of the stacks of some keys: rows of FRAME, innermost first."""

    def __init__(self, wanted: set[int]) -> None:
        self._wanted = wanted
        self.frames: dict[int, NDArray[np.uint64]] = {}

    def add(self, cursor: Cursor, window: Window, count: int, atoms: Sequence[Atom]) -> None:
        """A table of `count` stacks, in which the cursor is behind the count."""
        array = atoms[-1] if atoms else None
        parts = [part.name.rpartition(".")[2] for part in array.parts] if array else []
        plain = (INTEGER, BOOLEAN)
        if (
            array is None
            or array.form != ARRAY
            or any(atom.form not in plain for atom in (*atoms[:-1], *array.parts))
            or not set(FRAME) <= set(parts)
        ):
            raise cursor.fault("stacks with other fields than known versions write")
        columns = [parts.index(name) for name in FRAME]
        head, width = 1 + len(atoms), len(parts)  # of a stack: key, fields, number of frames
        most = _BLOCK
        while count:
            values, ends = window.run(cursor.at, most)
            numbers = values.tolist()
            at = 0
            while count and at + head <= len(numbers):
                size = head + width * numbers[at + head - 1]
                if at + size > len(numbers):
                    break
                if numbers[at] in self._wanted:
                    frames = values[at + head : at + size].reshape(-1, width)
                    self.frames[numbers[at]] = frames[:, columns]
                at += size
                count -= 1
            if at:
                cursor.at = int(ends[at - 1])
                most = _BLOCK
            elif len(numbers) < most:
                raise cursor.fault("stacks that end too early")
            else:
                most *= 2
