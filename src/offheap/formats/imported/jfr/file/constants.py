"""The constants of a chunk: tables of threads, methods, stacks and names, to which events refer by key.

Format: checkpoint events, the last of which is where the header says; each leads to the one before (the
JDK's jdk.jfr.internal.consumer.ChunkParser.fillConstantPools):

    size, type 1, time, duration, distance to the one before (negative) or 0, kind (a byte), number of tables;
    of each table: number of the type, number of constants; of each constant: key, values
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.file.chunks import Chunk
from offheap.formats.imported.jfr.file.cursor import Cursor
from offheap.formats.imported.jfr.file.metadata import (
    ARRAY,
    BOOLEAN,
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    STRING,
    Atom,
    Types,
)
from offheap.formats.imported.jfr.file.stack_traces import StackTraces
from offheap.formats.imported.jfr.file.varints import Window

CHECKPOINT = 1  # the type of the event
STACK_TRACE, STRINGS = "jdk.types.StackTrace", "java.lang.String"
# Limits of one chunk: a JVM of 100,000 classes has 1,500,000 methods, of which a profile refers to a few.
_MOST = 4_000_000
_MOST_ARRAY = 1 << 20  # values of one array

Row = tuple[int | float | str, ...]


@dataclass
class Constants:
    """tables: by the type's name, key -> the values of the fields in `wanted`, in their order."""

    tables: dict[str, dict[int, Row]]
    stacks: StackTraces
    count: int = 0
    strings: dict[int, Row] = field(default_factory=dict)

    def text(self, value: int | float | str) -> str:
        """A string of an event or constant: the text itself, or the key of one."""
        if isinstance(value, str):
            return value
        row = self.strings.get(whole(value))
        return row[0] if row and isinstance(row[0], str) else ""


def whole(value: int | float | str) -> int:
    """An integer of an event or constant; 0 where the file's type has another form."""
    return value if isinstance(value, int) else 0


def read(
    chunk: Chunk, types: Types, wanted: dict[str, Sequence[str]], stacks: NDArray[np.uint64]
) -> Constants:
    """The tables named in `wanted`, with these fields; of the stacks those with these keys (ascending)."""
    tables: dict[str, dict[int, Row]] = {name: {} for name in (*wanted, STRINGS)}
    constants = Constants(tables, StackTraces(set(stacks.tolist())))
    constants.strings = tables[STRINGS]
    columns = {**wanted, STRINGS: ("",)}
    offset = chunk.constants
    while True:
        data = chunk.event(offset, "constants")
        cursor = Cursor(chunk.path, data, chunk.at + offset)
        cursor.integer()
        if cursor.integer() != CHECKPOINT:
            raise cursor.fault("no constants are where the chunk says")
        cursor.integer()
        cursor.integer()
        distance = cursor.signed()
        cursor.byte()
        window = Window(data)
        for _ in range(cursor.integer()):
            _table(cursor, window, types, columns, constants)
        if distance == 0:
            return constants
        # Each checkpoint lies before the one that leads to it, so that there is no cycle.
        if distance > 0:
            raise cursor.fault("constants that lead forward")
        offset += distance


def _table(
    cursor: Cursor, window: Window, types: Types, columns: dict[str, Sequence[str]], constants: Constants
) -> None:
    number, count = cursor.integer(), cursor.integer()
    if number not in types.by_number:
        raise cursor.fault(f"constants of the unknown type {number}")
    name, atoms = types.by_number[number].name, types.atoms(number)
    constants.count += count
    if constants.count > _MOST:
        raise cursor.fault(f"more than {_MOST:,} constants")
    if name == STACK_TRACE:
        constants.stacks.add(cursor, window, count, atoms)
        return
    fields = columns.get(name)
    known = [atom.name for atom in atoms]
    if fields and not set(fields) <= set(known):
        raise cursor.fault(f"constants of {name} without {', '.join(fields)}")
    places = [known.index(one) for one in fields] if fields else []
    if all(atom.form in (INTEGER, BOOLEAN) for atom in atoms):
        width = 1 + len(atoms)
        values, ends = window.run(cursor.at, width * count)
        if len(values) < width * count:
            raise cursor.fault(f"{count:,} constants of {name}, which end too early")
        cursor.at = int(ends[-1]) if count else cursor.at
        if fields:
            rows = values.reshape(count, width)
            chosen = (rows[:, 1 + place].tolist() for place in places)
            constants.tables[name].update(zip(rows[:, 0].tolist(), zip(*chosen, strict=True), strict=True))
        return
    table = constants.tables[name] if fields else {}
    for _ in range(count):
        key = cursor.integer()
        row = values_of(cursor, atoms)
        if fields:
            table[key] = tuple(row[place] for place in places)


def values_of(cursor: Cursor, atoms: Sequence[Atom]) -> list[int | float | str]:
    """The values of an event or constant; an array is skipped and reads 0."""
    found: list[int | float | str] = []
    for atom in atoms:
        if atom.form == INTEGER:
            found.append(cursor.integer())
        elif atom.form == STRING:
            found.append(cursor.string())
        elif atom.form in (BOOLEAN, BYTE):
            found.append(cursor.byte())
        elif atom.form in (FLOAT, DOUBLE):
            found.append(cursor.number(">f" if atom.form == FLOAT else ">d"))
        else:
            assert atom.form == ARRAY
            length = cursor.integer()
            if length > _MOST_ARRAY:
                raise cursor.fault(f"an array of {length:,} values")
            for _ in range(length if atom.parts else 0):
                values_of(cursor, atom.parts)
            found.append(0)
    return found
