"""Fields of the events of one type, a column a field."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.file.chunks import Chunk
from offheap.formats.imported.jfr.file.event_places import Events, fault
from offheap.formats.imported.jfr.file.metadata import BOOLEAN, BYTE, DOUBLE, FLOAT, INTEGER, Atom

_BLOCK = 1 << 14  # events that are decoded at one time, so that their columns stay in the CPU's cache
_LONG = {
    "startTime",
    "address",
    "allocationTime",
    "allocationSize",
}  # fields whose values have more than four bytes
_WIDTHS = {BOOLEAN: 1, BYTE: 1, FLOAT: 4, DOUBLE: 8}

Columns = dict[str, NDArray[np.uint64]]


def columns(
    chunk: Chunk, of: Events, chosen: NDArray[np.bool_], atoms: Sequence[Atom], names: Sequence[str]
) -> Columns:
    """The fields `names` of the chosen events, which have `atoms`; UserError where a field is missing."""
    known = [atom.name for atom in atoms]
    missing = [name for name in names if name not in known]
    if missing:
        raise fault(chunk, of.base, f"events without the field {missing[0]}")
    needed = atoms[: max(map(known.index, names)) + 1]
    if any(atom.form not in (INTEGER, *_WIDTHS) for atom in needed):
        raise fault(chunk, of.base, "events with other fields than known versions write")
    bodies, ends = of.bodies[chosen], of.ends[chosen]
    found: Columns = {name: np.empty(len(bodies), np.uint64) for name in names}
    for low in range(0, len(bodies), _BLOCK):
        place = bodies[low : low + _BLOCK]
        for atom in needed:
            # An event that is damaged may lead out of the window.
            place = np.minimum(place, of.window.length)
            if atom.form == INTEGER:
                long = atom.name in _LONG
                values, place = (of.window.integers if long else of.window.short_integers)(place)
            else:
                values = of.window.bytes[place].astype(np.uint64)
                place = place + _WIDTHS[atom.form]
            if atom.name in found:
                found[atom.name][low : low + _BLOCK] = values
        if (place > ends[low : low + _BLOCK]).any():
            at = low + int(np.argmax(place > ends[low : low + _BLOCK]))
            raise fault(chunk, of.base + int(of.starts[chosen][at]), "an event is too short for its fields")
    return found
