"""Classes of the boot loader, their fields, and the objects in their static fields, read from outside.

The path is HotSpot's own: the graph of class loaders, the classes of the boot loader, a class's fields, its
mirror (the java.lang.Class that holds the static fields), and the object that a static field points to.
Objects may move during a read, so the caller checks an object's class before and after the read.

Reference words have the formats of the collectors: compressed (shift and base), plain, and ZGC's coloured
references.  ZGC on JDK 11 and 17 has the colours in high bits and maps the heap once for each colour;
generational ZGC has them in the low 16 bits.  An object that ZGC has moved is not found until a thread
loads its reference.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass

from offheap.jvm.structures.vm_structs import Structs

_MOST_LOADERS = 1 << 17
_MOST_CLASSES = 1 << 17
_MOST_FIELDS = 1 << 10
_STATIC = 0x0008  # an access flag of the class file
_FIELD_SHORTS = 6  # before JDK 21: flags, name, signature, initial value, offset in two halves
_OFFSET_TAG_BITS = 2
# Flag bits of a field since JDK 21; each adds a number to the field.
_OPTIONAL = (1 << 0, 1 << 2, 1 << 4)
_KLASS_SHIFT = 42  # of the compact header's class, in the mark word
_REMAPPED_BIT, _COLOUR_BITS = 12, 16  # generational ZGC's


@dataclass(frozen=True, slots=True)
class JavaField:
    """`offset` in an object; for a static field, in the class's mirror."""

    signature: str
    offset: int
    static: bool


def boot_classes(structs: Structs, until: int = 0) -> Iterator[tuple[int, int]]:
    """(class, Symbol of its name) of the boot loader's classes, newest first, down to the class `until`."""
    klass = structs.pointer(structs.at(_boot_loader(structs), "ClassLoaderData._klasses"))
    name, link = (structs.offset(f"Klass.{field}") for field in ("_name", "_next_link"))
    if name is None or link is None:
        return
    for _ in range(_MOST_CLASSES):
        words = structs.words(klass, max(name, link) // 8 + 1)
        if klass == until or len(words) <= max(name, link) // 8:
            return
        yield klass, words[name // 8]
        klass = words[link // 8]


def is_named(structs: Structs, symbol: int, name: bytes) -> bool:
    """Whether a Symbol is this name."""
    length, body = structs.at(symbol, "Symbol._length"), structs.at(symbol, "Symbol._body[0]")
    if not length or not body:
        return False
    raw = structs.read(symbol, body - symbol + len(name))
    return int.from_bytes(raw[length - symbol :][:2], "little") == len(name) and raw[body - symbol :] == name


def fields(structs: Structs, klass: int) -> dict[str, JavaField]:
    """The fields that a class declares, by name; {} when this JVM's layout is unknown."""
    constants = structs.pointer(structs.at(klass, "InstanceKlass._constants"))
    header = structs.size_of("ConstantPool")
    if not constants or not header:
        return {}
    compressed = structs.pointer(structs.at(klass, "InstanceKlass._fieldinfo_stream"))
    rows = _stream(structs, compressed) if compressed else _shorts(structs, klass)
    found = {}
    for name, signature, offset, flags in rows:
        texts = [_text(structs, structs.pointer(constants + header + 8 * at)) for at in (name, signature)]
        found[texts[0]] = JavaField(texts[1], offset, bool(flags & _STATIC))
    return found


def mirror(structs: Structs, klass: int) -> int:
    """The address of a class's java.lang.Class; 0 if it has none."""
    handle = structs.pointer(structs.at(klass, "Klass._java_mirror"))
    return _address(structs, structs.pointer(handle))


def referred(structs: Structs, address: int, *, narrow: bool) -> int:
    """The object that the reference at an address points to, 0 for null; `narrow`: of 32 bits."""
    if not narrow:
        return _address(structs, structs.pointer(address))
    word = int.from_bytes(structs.read(address, 4), "little")
    base, shift = _coding(structs, "CompressedOops._narrow_oop", "CompressedOops", "Universe._narrow_oop")
    return base + (word << shift) if word else 0


def is_instance(structs: Structs, instance: int, klass: int) -> bool:
    """Whether an object of exactly this class is at the address."""
    words = structs.words(instance, 2)
    if len(words) < 2:
        return False
    coding = ("CompressedKlassPointers._narrow_klass", "CompressedKlassPointers", "Universe._narrow_klass")
    base, shift = _coding(structs, *coding)
    narrow = (words[1] & 0xFFFF_FFFF, words[0] >> _KLASS_SHIFT)
    return klass in (words[1], *(base + (one << shift) for one in narrow))


def _boot_loader(structs: Structs) -> int:
    """The boot loader's ClassLoaderData, the oldest one: before JDK 25 it is at the end of the list."""
    found = structs.static("ClassLoaderData._the_null_class_loader_data")
    if found:
        return found
    data = structs.static("ClassLoaderDataGraph._head")
    for _ in range(_MOST_LOADERS):
        following = structs.pointer(structs.at(data, "ClassLoaderData._next"))
        if not following:
            return data
        data = following
    return 0


def _shorts(structs: Structs, klass: int) -> Iterator[tuple[int, int, int, int]]:
    """(name, signature, offset, access flags) of each field, the first two as constant pool indexes."""
    array = structs.pointer(structs.at(klass, "InstanceKlass._fields"))
    count = int.from_bytes(structs.read(structs.at(klass, "InstanceKlass._java_fields_count"), 2), "little")
    size = 2 * _FIELD_SHORTS
    raw = structs.read(structs.at(array, "Array<u2>._data"), size * min(count, _MOST_FIELDS))
    for at in range(0, len(raw) // size * size, size):
        flags, name, signature, _, low, high = (
            int.from_bytes(raw[at + 2 * part : at + 2 * part + 2], "little") for part in range(_FIELD_SHORTS)
        )
        yield name, signature, (high << 16 | low) >> _OFFSET_TAG_BITS, flags


def _stream(structs: Structs, array: int) -> Iterator[tuple[int, int, int, int]]:
    """As `_shorts`, from JDK 21 on: two counts, then the fields, all as HotSpot's UNSIGNED5 numbers."""
    length = int.from_bytes(structs.read(structs.at(array, "Array<int>._length"), 4), "little")
    raw = structs.read(structs.at(array, "Array<u1>._data"), min(length, _MOST_FIELDS * 16))
    numbers = _unsigned5(raw)
    count, _ = next(numbers, 0), next(numbers, 0)
    for _ in range(min(count, _MOST_FIELDS)):
        row = [next(numbers, -1) for _ in range(5)]
        if -1 in row:
            return
        name, signature, offset, access, flags = row
        for bit in _OPTIONAL:
            if flags & bit:
                next(numbers, 0)
        yield name, signature, offset, access


def _unsigned5(raw: bytes) -> Iterator[int]:
    """Numbers of one to five bytes: all but the last byte are 192 or more; each byte is stored plus 1."""
    value = shift = 0
    for byte in raw:
        value += (byte - 1) << shift
        shift += 6
        if byte < 192 or shift == 30:
            yield value
            value = shift = 0


def _text(structs: Structs, symbol: int) -> str:
    length = int.from_bytes(structs.read(structs.at(symbol, "Symbol._length"), 2), "little")
    return structs.read(structs.at(symbol, "Symbol._body[0]"), length).decode("utf-8", "replace")


def _coding(structs: Structs, *names: str) -> tuple[int, int]:
    """(base, shift) of compressed references or classes, by the first name that this JVM has."""
    for name in names:
        base, shift = f"{name}._base", f"{name}._shift"
        if structs.knows_static(base):
            return structs.static(base), structs.static(shift) & 0xFF
    return 0, 0


def _address(structs: Structs, word: int) -> int:
    """The object's address in a full reference."""
    if not _generational_z(structs):
        return word
    if word < 1 << _COLOUR_BITS:
        return 0
    if platform.machine() != "x86_64":
        return word >> _COLOUR_BITS
    # One bit of four is set; the address begins right above it.
    remapped = word >> _REMAPPED_BIT & 0xF
    return word >> (_REMAPPED_BIT + remapped.bit_length()) if remapped else 0


def _generational_z(structs: Structs) -> bool:
    known = structs.static("ZGlobalsForVMStructs._instance_p")
    mask = structs.at(known, "ZGlobalsForVMStructs._ZPointerLoadGoodMask")
    return bool(mask and structs.pointer(structs.pointer(mask)))
