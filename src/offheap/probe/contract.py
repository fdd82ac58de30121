"""probe/recording.h in Python: the live file's constants and rows, byte for byte.

tests/probe/store/test_contract.py compiles the header and compares every size, offset and
value with this file.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

MAGIC = b"OFFHEAP\n"
VERSION = 3
HEADER_BYTES = 4096


class State(IntEnum):
    INITIAL = 0
    RECORDING = 1
    STOPPED = 2
    EXITED = 3


class Mode(IntEnum):
    SAMPLED = 1
    EXACT = 2


class Entry(IntEnum):
    PRELOAD = 1
    AGENTPATH = 2
    ATTACH = 3


class Section(IntEnum):
    STRINGS = 0
    MODULES = 1
    METHODS = 2
    LINES = 3
    THREADS = 4
    FRAMES = 5
    STACKS = 6
    COUNTERS = 7
    KEYS = 8
    VALUES = 9
    RANGES = 10
    PROPERTIES = 11


class Loss(IntEnum):
    """Rows of header.losses; the last is no loss but the number of joined samples."""

    LOST_BLOCKS = 0
    LOST_RANGES = 1
    LOST_UNMAPS = 2
    LOST_STACKS = 3
    LOST_METHODS = 4
    LOST_STRINGS = 5
    LOST_THREADS = 6
    LOST_MODULES = 7
    LOST_UNWINDS = 8
    LOST_JAVA = 9
    LOST_REENTRIES = 10
    TRUNCATED = 11
    JAVA_JOINED = 12
    JAVA_INEXACT = 13
    LOST_OBJECTS = 14


LOSSES = 16
SEGMENTS = 12


class Coverage(IntFlag):
    BEFORE_ATTACH = 1 << 0
    NO_DLSYM = 1 << 1
    NO_LDSO = 1 << 2
    NO_JVM = 1 << 3
    NO_JAVA_FRAMES = 1 << 4
    NO_METHOD_NAMES = 1 << 5
    CHAINED = 1 << 6
    WAS_IDLE = 1 << 7
    SHORT_OF_MEMORY = 1 << 8


class JavaHeapState(IntEnum):
    """header.java_heap."""

    NOT_REQUESTED = 0
    REQUESTED = 1
    FOLLOWED = 2
    TAKEN = 3
    UNAVAILABLE = 4


class FrameKind(IntEnum):
    ADDRESS = 0
    NATIVE = 1
    JAVA = 2
    HOOK = 3
    GAP = 4
    CLASS = 5


FRAME_KIND_SHIFT = 60
FRAME_MODULE_SHIFT = 40
FRAME_ADDRESS_MASK = (1 << 40) - 1
FRAME_METHOD_SHIFT = 24
GAP_UNWINDER = 255
# The ADDRESS kind has it; the header draws it as bits 0..47.
FRAME_RAW_ADDRESS_MASK = (1 << 48) - 1
# The JAVA kind has bits 24..55 and 0..23.
FRAME_METHOD_MASK = (1 << 32) - 1
FRAME_BCI_MASK = (1 << 24) - 1

# Bits of a module's `image`.
IMAGE_DESCRIPTOR = 0x7FFFFFFF
IMAGE_IN_MEMORY = 0x80000000

# The hooked functions in the order of enum offheap_hook.
HOOKS = (
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "free",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "mmap",
    "mmap64",
    "munmap",
    "mremap",
    "dlopen",
    "dlclose",
    "dlsym",
)


class MethodState(IntEnum):
    FREE = 0
    SEEN = 1
    NAMED = 2
    UNLOADED = 3


class StackKind(IntEnum):
    MALLOC = 1
    MMAP = 2
    JAVA = 3


VALUE_SIZE_MASK = (1 << 40) - 1
VALUE_INTERVAL_SHIFT = 40
VALUE_THREAD_SHIFT = 48

# Keys of Java objects, and the least of their interval codes: each has twice the mean of the one before.
OBJECT_KEY = 1 << 62
OBJECT_SHIFT = 40
OBJECT_NUMBER_MASK = (1 << 22) - 1
JAVA_CODE = 224

# Fixed points of struct offheap_counters.
COUNTER_BLOCKS_UNIT = 1 / 65536
COUNTER_BYTES_VARIANCE_UNIT = 1024.0**2

SECTION = np.dtype(
    [("offset", "<u8"), ("capacity", "<u8"), ("used", "<u8"), ("row_bytes", "<u4"), ("reserved", "<u4")]
)

SEGMENT = np.dtype([("offset", "<u8"), ("capacity", "<u8")])

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("file_bytes", "<u8"),
        ("state", "<u4"),
        ("mode", "<u4"),
        ("entry", "<u4"),
        ("pid", "<i4"),
        ("uid", "<u4"),
        ("tick_ns", "<u4"),
        ("process_start", "<u8"),
        ("start_realtime_ns", "<u8"),
        ("start_monotonic_ns", "<u8"),
        ("stop_monotonic_ns", "<u8"),
        ("coverage", "<u8"),
        ("counter_shards", "<u4"),
        ("keys_per_bucket", "<u4"),
        ("heartbeat_ns", "<u8"),
        ("probe_version", "S24"),
        ("losses", "<u8", (LOSSES,)),
        ("sections", SECTION, (16,)),
        ("intervals", "<u8", (256,)),
        ("budget_ppm", "<u8"),
        ("cpu_ns", "<u8"),
        ("spent_ns", "<u8"),
        ("adjusted_ns", "<u8"),
        ("inverse_seconds", "<f8"),
        ("interval_code", "<u4"),
        ("greatest_code", "<u4"),
        ("least_code", "<u4"),
        ("kept", "<u4"),
        ("recorder_pid", "<u8"),
        ("recorder_start", "<u8"),
        ("recorder_namespace", "<u8"),
        ("memory_bound", "<u8"),
        ("segments", "<u8"),
        ("segment", SEGMENT, (SEGMENTS,)),
        ("java_heap", "<u4"),
        ("java_code", "<u4"),
        ("java_spent_ns", "<u8"),
        ("java_collections", "<u8"),
        ("java_collected", "<u4"),
        ("java_followed", "<u4"),
        ("java_most", "<u4"),
        ("java_thinned", "<u4"),
        ("java_swept_ns", "<u8"),
        ("reserved", "<u8", (118,)),
    ]
)

MODULE = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),
        ("bias", "<u8"),
        ("path", "<u4"),
        ("born", "<u4"),
        ("gone", "<u4"),
        ("build_id_bytes", "u1"),
        ("build_id", "u1", (32,)),
        ("reserved", "u1", (3,)),
        ("image", "<u4"),
        ("reserved_too", "u1", (4,)),
    ]
)

METHOD = np.dtype(
    [
        ("id", "<u8"),
        ("state", "<u4"),
        ("class_signature", "<u4"),
        ("name", "<u4"),
        ("signature", "<u4"),
        ("source_file", "<u4"),
        ("lines", "<u4"),
        ("line_count", "<u4"),
        ("reserved", "<u4"),
    ]
)

LINE = np.dtype([("start", "<u4"), ("line", "<u4")])

THREAD = np.dtype([("tid", "<u4"), ("name", "S60")])

FRAME = np.dtype("<u8")

STACK = np.dtype(
    [
        ("hash", "<u8"),
        ("frames", "<u4"),
        ("depth", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("born", "<u4"),
        ("reserved", "<u4"),
    ]
)

COUNTERS = np.dtype(
    [
        ("samples", "<u8"),
        ("blocks", "<u8"),
        ("bytes", "<u8"),
        ("blocks_variance", "<u8"),
        ("bytes_variance", "<u8"),
        ("reserved", "<u8", (3,)),
    ]
)

KEY = np.dtype("<u8")

VALUE = np.dtype([("block", "<u8"), ("stack", "<u4"), ("birth", "<u4")])

RANGE = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),
        ("length_at_birth", "<u8"),
        ("stack", "<u4"),
        ("birth", "<u4"),
        ("thread", "<u2"),
        ("interval", "u1"),
        ("reserved", "u1", (5,)),
    ]
)

PROPERTY = np.dtype([("key", "<u4"), ("value", "<u4")])

ROWS: dict[Section, np.dtype[np.generic]] = {
    Section.STRINGS: np.dtype("u1"),
    Section.MODULES: MODULE,
    Section.METHODS: METHOD,
    Section.LINES: LINE,
    Section.THREADS: THREAD,
    Section.FRAMES: FRAME,
    Section.STACKS: STACK,
    Section.COUNTERS: COUNTERS,
    Section.KEYS: KEY,
    Section.VALUES: VALUE,
    Section.RANGES: RANGE,
    Section.PROPERTIES: PROPERTY,
}
