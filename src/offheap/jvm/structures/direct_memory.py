"""Memory of direct buffers by the JDK's own counters, read from outside without asking the JVM.

java.nio.Bits counts what ByteBuffer.allocateDirect takes and the buffers' Cleaners give back: three
AtomicLongs in static fields (JDK 11 to 27).  Until JDK 24 they include the buffers that NIO keeps for each
thread (JDK-8344882).  They do not count memory from Unsafe, FFM and Netty without Cleaners.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from offheap.jvm.structures import java_statics, vm_structs
from offheap.jvm.structures.java_statics import JavaField
from offheap.jvm.structures.vm_structs import Structs
from offheap.proc import status
from offheap.proc.maps import Mapping

_BITS, _COUNTER = b"java/nio/Bits", b"java/util/concurrent/atomic/AtomicLong"
_ANY = b"java/lang/Object"  # every JVM has this class
_FIELDS = ("RESERVED_MEMORY", "TOTAL_CAPACITY", "COUNT")
_ATTEMPTS, _PAUSE = 8, 0.02  # seconds: a collection may move what is read
_MOST = 1 << 50  # bytes, or buffers
_MOST_PROCESSES = 256  # whose classes are remembered


@dataclass(frozen=True, slots=True)
class DirectMemory:
    """Bytes from malloc, alignment included; bytes of the buffers; number of buffers."""

    reserved: int
    capacity: int
    count: int


@dataclass
class _Classes:
    """Addresses of the two classes in a JVM; 0 as long as they are not loaded.

    any    whether java.lang.Object was found: if not, the layout of classes is unknown
    until  the newest class at the last search: the next search stops there
    last   the last reading.  After ZGC moves the counters, they cannot be found until a thread of the JVM
           loads the reference to them; until then no thread changes them
    """

    bits: int = 0
    counter: int = 0
    any: bool = False
    until: int = 0
    last: DirectMemory | None = None


_known: dict[tuple[int, int], _Classes] = {}  # by PID and time of start


def read(pid: int, mappings: Sequence[Mapping]) -> DirectMemory | None:
    """None when unknown: no JVM, an unknown layout, or an object that is being moved.

    PermissionError when this user may not read the memory.
    """
    structs = vm_structs.find(pid, mappings)
    if structs is None:
        return None
    with structs:
        try:
            classes = _classes(pid, structs)
            classes.last = _read(structs, classes) or classes.last
            return classes.last
        except (OSError, struct.error, OverflowError):
            return None


def _classes(pid: int, structs: Structs) -> _Classes:
    if len(_known) > _MOST_PROCESSES:
        _known.clear()
    found = _known.setdefault((pid, status.read(pid).start_ticks), _Classes())
    if found.bits and found.counter:
        return found
    newest = 0
    for klass, name in java_statics.boot_classes(structs, found.until):
        newest = newest or klass
        if not found.bits and java_statics.is_named(structs, name, _BITS):
            found.bits = klass
        elif not found.counter and java_statics.is_named(structs, name, _COUNTER):
            found.counter = klass
        elif not found.any:
            found.any = java_statics.is_named(structs, name, _ANY)
        if found.bits and found.counter:
            break
    found.until = newest or found.until
    return found


def _read(structs: Structs, classes: _Classes) -> DirectMemory | None:
    if not classes.bits:
        # The class is not loaded: no buffer was requested yet.
        return DirectMemory(0, 0, 0) if classes.any else None
    if not classes.counter:
        return None
    known = java_statics.fields(structs, classes.bits)
    value = java_statics.fields(structs, classes.counter).get("value")
    statics = [known.get(name) for name in _FIELDS]
    signature = f"L{_COUNTER.decode()};"
    places = [one for one in statics if one and one.static and one.signature == signature]
    if value is None or value.signature != "J" or len(places) < len(_FIELDS):
        return None
    before = None
    for _ in range(_ATTEMPTS):
        counters = _counters(structs, classes, places)
        if counters is None or counters != before:
            if counters is None:
                time.sleep(_PAUSE)
            before = counters
            continue
        if not any(counters):
            return DirectMemory(0, 0, 0)  # the class is not initialised
        raw = [structs.read(counter + value.offset, 8) for counter in counters]
        if _counters(structs, classes, places) == counters and all(len(one) == 8 for one in raw):
            reserved, capacity, count = (int.from_bytes(one, "little", signed=True) for one in raw)
            if all(0 <= one < _MOST for one in (reserved, capacity, count)):
                return DirectMemory(reserved, capacity, count)
    return None


def _counters(structs: Structs, classes: _Classes, places: Sequence[JavaField]) -> list[int] | None:
    """The addresses of the AtomicLongs, or zeros; None if an object is no AtomicLong."""
    mirror = java_statics.mirror(structs, classes.bits)
    # The three references are adjacent: if they have 32 bits, at least one is not at a multiple of 8.
    narrow = any(place.offset % 8 for place in places)
    found = [java_statics.referred(structs, mirror + place.offset, narrow=narrow) for place in places]
    if not mirror:
        return None
    told = not any(found) or all(java_statics.is_instance(structs, one, classes.counter) for one in found)
    return found if told else None
