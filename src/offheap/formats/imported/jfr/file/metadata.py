"""The types of a chunk's events and constants, which its metadata event describes.

Format: the JDK's jdk.jfr.internal.MetadataReader: a table of strings, then a tree of elements, each with its
name, its attributes and its children.  `class` elements are the types, their `field` children the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.jfr.file.cursor import Cursor

METADATA = 0  # the type of the metadata event
# Limits of one chunk: the JDK's own metadata has 8,000 strings and 20,000 elements.
_MOST_STRINGS, _MOST_ELEMENTS, _DEEPEST = 1_000_000, 1_000_000, 32
_MOST_OPENED = 10_000  # structures of a type and those in it
_MOST_FIELDS = 256  # of an event, with those of the structures in it

INTEGER, BOOLEAN, BYTE, FLOAT, DOUBLE = "integer", "boolean", "byte", "float", "double"
STRING, ARRAY = "string", "array"
_PRIMITIVES = {
    "long": INTEGER,
    "int": INTEGER,
    "short": INTEGER,
    "char": INTEGER,
    "boolean": BOOLEAN,
    "byte": BYTE,
    "float": FLOAT,
    "double": DOUBLE,
    "java.lang.String": STRING,
}


@dataclass(frozen=True)
class EventField:
    """`type` is the number of a type; constant: the value is a key of its constants; array: several."""

    name: str
    type: int
    constant: bool
    array: bool


@dataclass(frozen=True)
class Type:
    number: int
    name: str
    fields: tuple[EventField, ...]


@dataclass(frozen=True)
class Atom:
    """A value as it is written.  form: INTEGER to ARRAY; the elements of an array have `parts`."""

    name: str
    form: str
    parts: tuple[Atom, ...] = ()


class Types:
    """The types of one chunk, by number and by name.  path: of the file, for messages."""

    def __init__(self, path: Path, types: list[Type]) -> None:
        self._path = path
        self.by_number = {one.number: one for one in types}
        self.by_name = {one.name: one for one in types}
        self._opened = 0
        self._atoms: dict[int, tuple[Atom, ...]] = {}

    def number(self, name: str) -> int:
        """-1 when the chunk has no such type."""
        found = self.by_name.get(name)
        return found.number if found else -1

    def short_numbers(self) -> NDArray[np.bool_]:
        """By number up to 255, whether there is a type of it; without the chunk's own two."""
        known = np.zeros(256, bool)
        known[[number for number in self.by_number if METADATA + 1 < number < 128]] = True
        return known

    def atoms(self, number: int) -> tuple[Atom, ...]:
        """The values of an event or constant of a type in their order; structures are opened.

        UserError for a type that does not exist, or contains itself.
        """
        found = self._atoms.get(number)
        if found is None:
            self._opened = 0
            found = self._atoms[number] = tuple(self._open(number, "", 0))
        return found

    def _fault(self, number: int, what: str) -> UserError:
        return source.fault(self._path, f"metadata of type {number}", what)

    def _open(self, number: int, prefix: str, depth: int) -> list[Atom]:
        one = self.by_number.get(number)
        # Structures without a field have no value and cost time.
        self._opened += 1
        if one is None:
            raise self._fault(number, "there is no such type")
        if depth > _DEEPEST or self._opened > _MOST_OPENED:
            raise self._fault(number, "structures in structures without an end")
        if one.name in _PRIMITIVES:
            return [Atom(prefix, _PRIMITIVES[one.name])]
        atoms: list[Atom] = []
        for field in one.fields:
            name = f"{prefix}.{field.name}" if prefix else field.name
            inner = [Atom(name, INTEGER)] if field.constant else self._open(field.type, name, depth + 1)
            atoms += [Atom(name, ARRAY, tuple(inner))] if field.array else inner
            if len(atoms) > _MOST_FIELDS:
                raise self._fault(number, f"more than {_MOST_FIELDS} fields")
        return atoms


def parse(cursor: Cursor) -> Types:
    """From a metadata event; the cursor is at its begin."""
    cursor.integer()  # its size
    if cursor.integer() != METADATA:
        raise cursor.fault("no metadata event is where the chunk's header says")
    for _ in range(3):  # time, duration, number
        cursor.integer()
    count = cursor.integer()
    if count > _MOST_STRINGS:
        raise cursor.fault(f"{count:,} strings of metadata")
    strings = [str(cursor.string()) for _ in range(count)]
    return _Elements(cursor, strings).types()


class _Elements:
    def __init__(self, cursor: Cursor, strings: list[str]) -> None:
        self._cursor, self._strings = cursor, strings
        self._count = 0
        self._types: list[Type] = []

    def types(self) -> Types:
        self._element(0)
        return Types(self._cursor.path, self._types)

    def _text(self) -> str:
        index = self._cursor.integer()
        if index >= len(self._strings):
            raise self._cursor.fault(f"string {index} of {len(self._strings)}")
        return self._strings[index]

    def _element(self, depth: int) -> EventField | None:
        """Adds a type to the list; the element, if it is a field."""
        self._count += 1
        if depth > _DEEPEST or self._count > _MOST_ELEMENTS:
            raise self._cursor.fault("too many elements of metadata, or too deep ones")
        name = self._text()
        attributes = {}
        for _ in range(self._number()):
            key = self._text()
            attributes[key] = self._text()
        children = [self._element(depth + 1) for _ in range(self._number())]
        try:
            if name == "class":
                fields = tuple(child for child in children if child)
                self._types.append(Type(int(attributes["id"]), attributes["name"], fields))
            elif name == "field":
                return EventField(
                    attributes["name"],
                    int(attributes["class"]),
                    attributes.get("constantPool") == "true",
                    attributes.get("dimension", "0") != "0",
                )
        except (KeyError, ValueError):
            raise self._cursor.fault(f"a {name} without a name or a number") from None
        return None

    def _number(self) -> int:
        number = self._cursor.integer()
        if number > _MOST_ELEMENTS:
            raise self._cursor.fault(f"{number:,} elements of metadata")
        return number
