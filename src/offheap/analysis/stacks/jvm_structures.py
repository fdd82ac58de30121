"""Names HotSpot's structures (handles, strings, classes, threads) by the functions that allocate them.

HotSpot's own memory grows as the logarithm of time for hours, and only growth in a straight line is a leak.
A structure that a call of the application makes, and that stays until the application gives it back, is the
application's: a JNI global reference that nobody deletes is a leak like any other, though HotSpot's
OopStorage holds the block.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from offheap.recording.model import Frame

Mapped = Literal["metaspace", "code-cache", "threads"]

# The caller has to delete these: JNI's specification, chapter 4, "Global References".
_HANDLES = re.compile(r"jni_New(?:Weak)?GlobalRef\b|JNIHandles::make_(?:weak_)?global\b|JvmtiEnv::SetTag\b")
# Each collector's functions that commit the Java heap and the tables beside it (JDK 11 to 27).  A thread
# whose object does not fit calls them, too, so the stack may have Java frames.
_JAVA_HEAP = re.compile(
    r"(?:G1)?HeapRegionManager::|G1PageBasedVirtualSpace::|ShenandoahHeapRegion::|ShenandoahHeap::commit_"
    r"|[XZ]PhysicalMemory(?:Manager|Backing)::|PSVirtualSpace::expand_"
    r"|(?:Card|Tenured|DefNew)Generation::expand"
)
_CLASSES = "classes"
# ZGC's tables of each page, in malloc's memory (JDK 21 calls the one without generations X).
_PAGE_TABLES = re.compile(r"[XZ](?:Page|LiveMap|RememberedSet|ObjectAllocator)\w*::")
_NAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"jni_NewGlobalRef\b|JNIHandles::make_global\b"), "JNI global references"),
    (re.compile(r"jni_NewWeakGlobalRef\b|JNIHandles::make_weak_global\b"), "JNI weak global references"),
    (re.compile(r"JvmtiTagMap::|JvmtiEnv::SetTag"), "tags of a JVMTI agent"),
    (re.compile(r"StringTable::|JVM_InternString\b"), "interned strings"),
    (re.compile(r"ResolvedMethodTable::|MethodHandles::"), "method handles"),
    (re.compile(r"ObjectSynchronizer::|ObjectMonitor::"), "monitors"),
    (re.compile(r"JVM_StartThread\b|JavaThread::JavaThread\b|os::create_thread\b"), "threads"),
    (
        re.compile(
            r"ClassFileParser::|SystemDictionary::|ClassLoaderData|InstanceKlass::|SymbolTable::|JVM_\w*DefineClass"
        ),
        _CLASSES,
    ),
    (re.compile(r"nmethod::|CodeCache::|AdapterHandler|CodeBlob::"), "compiled code"),
)


# What HotSpot maps or commits memory for, as `where` calls its owners.  JDK 11 has no namespace metaspace.
_MAPPED: tuple[tuple[re.Pattern[str], Mapped], ...] = (
    (re.compile(r"metaspace::|VirtualSpace(?:Node|List)::|SpaceManager::|Metaspace::"), "metaspace"),
    (re.compile(r"CodeHeap::|CodeCache::"), "code-cache"),
    (re.compile(r"\w+::create_stack_guard_pages\b"), "threads"),
)


def is_handle(stack: Sequence[Frame]) -> bool:
    """Whether the application asked for a structure that stays until the application gives it back."""
    return any(frame.kind == "jvm" and _HANDLES.match(frame.name) for frame in stack)


def is_java_heap(stack: Sequence[Frame]) -> bool:
    """Whether the JVM commits pages of the Java heap, or makes their tables on the thread that needs a page.

    What fills the pages is in no native block.
    """
    tables = False
    for frame in stack:
        if frame.kind == "java":
            return tables
        if frame.kind == "jvm":
            if _JAVA_HEAP.match(frame.name):
                return True
            tables = tables or of_pages(frame)
    return False


def is_of_classes(stack: Sequence[Frame]) -> bool:
    """Whether the block is a class's: it goes with its class loader, at a collection of the whole heap."""
    return mapped_for(stack) == "metaspace" or name(stack) == _CLASSES


def of_pages(frame: Frame) -> bool:
    """Whether the function commits pages of the Java heap or makes their tables."""
    return frame.kind == "jvm" and bool(_JAVA_HEAP.match(frame.name) or _PAGE_TABLES.match(frame.name))


def name(stack: Sequence[Frame]) -> str:
    """`JNI global references`: HotSpot's structure that the block is for; "" if unknown."""
    for frame in stack:
        if frame.kind == "java":
            break
        if frame.kind == "jvm":
            for pattern, words in _NAMES:
                if pattern.match(frame.name):
                    return words
    return ""


def mapped_for(stack: Sequence[Frame]) -> Mapped | None:
    """Whose pages a mapping of HotSpot's own holds; None: another's."""
    for frame in stack:
        if frame.kind == "java":
            break
        if frame.kind == "jvm":
            for pattern, owner in _MAPPED:
                if pattern.match(frame.name):
                    return owner
    return None
