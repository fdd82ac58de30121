"""Fields of events that are few: settings, the JVM's description, readings of RSS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from offheap.formats.imported.jfr.file.chunks import Chunk
from offheap.formats.imported.jfr.file.constants import Row, values_of
from offheap.formats.imported.jfr.file.cursor import Cursor
from offheap.formats.imported.jfr.file.event_places import Events, fault
from offheap.formats.imported.jfr.file.metadata import Types

_MOST = 100_000  # of one window and type, as a second in memory holds


def rows(chunk: Chunk, types: Types, of: Events, name: str, fields: Sequence[str]) -> Iterator[Row]:
    """These fields of each event of the type; none where the chunk's type lacks one of them."""
    number = types.number(name)
    if number < 0:
        return
    chosen = np.flatnonzero(of.types == number)
    if len(chosen) > _MOST:
        raise fault(chunk, of.base, f"more than {_MOST:,} events {name} in a row")
    atoms = types.atoms(number)
    known = [atom.name for atom in atoms]
    if not set(fields) <= set(known):
        return
    places = [known.index(field) for field in fields]
    data = of.window.bytes
    for event in chosen.tolist():
        start = int(of.bodies[event])
        cursor = Cursor(chunk.path, data[start : of.ends[event]].tobytes(), chunk.at + of.base + start)
        values = values_of(cursor, atoms[: max(places) + 1])
        yield tuple(values[place] for place in places)
