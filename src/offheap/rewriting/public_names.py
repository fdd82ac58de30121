"""Names that say nothing about the application: of the JDK, of glibc, of HotSpot's threads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from offheap.recording.model import Module

# Run-time libraries of C and C++ (glibc 2.17 and later, GCC), and the probe, by base name.
_RUN_TIME = re.compile(
    r"(?:ld-linux[\w-]*\.so\.\d+|ld-2\.\d+\.so|lib(?:c|m|dl|rt|pthread|resolv|util|anl|nsl|nss_\w+|gcc_s|stdc\+\+)"
    r"(?:-2\.\d+)?\.so(?:\.\d+)*|liboffheap\.so|\[vdso\]|linux-vdso\.so\.1)"
)
# The JDK's own libraries (JDK 8 to 28).  Only in the folder of its libjvm.so: others have such names as well.
_JDK = re.compile(
    r"lib(?:jvm|java|jli|zip|net|nio|extnet|verify|jimage|management(?:_ext|_agent)?|instrument|attach|jdwp"
    r"|dt_(?:socket|shmem)|saproc|rmi|sctp|prefs|jaas|j2gss|j2pcsc|j2pkcs11|sunec|le|syslookup|jsig|simdsort|sleef"
    r"|awt(?:_xawt|_headless)?|jawt|mlib_image|javajpeg|lcms|fontmanager|freetype|jsound|splashscreen|unpack"
    r"|npt|hprof|java_crw_demo|jsdt|jfr|svml|harfbuzz)\.so"
)
_LIBJVM, _LAUNCHER = "libjvm.so", "java"

# Threads of HotSpot and the JDK (JDK 11 to 28), with their numbers as #.
_THREADS = frozenset(
    {
        *("other threads", "main", "java", "DestroyJavaVM", "offheap", "Thread-#", "pool-#-thread-#"),
        *("Reference Handler", "Finalizer", "Signal Dispatcher", "Common-Cleaner", "Cleaner-#"),
        *("Attach Listener", "Service Thread", "Monitor Deflation Thread", "Notification Thread"),
        *("VM Thread", "VM Periodic Task Thread", "Sweeper thread", "process reaper"),
        *("C# CompilerThread#", "GC Thread##", "G# Main Marker", "G# Conc##", "G# Refine##", "G# Service"),
        *("G# Young RemSet Sampling", "ZDriver", "ZDirector", "ZStat", "ZWorkerYoung##", "ZWorkerOld##"),
        *("ZDriverMajor", "ZDriverMinor", "ZUncommitter##", "ZUnmapper", "XDriver", "XDirector", "XStat"),
        *("Shenandoah GC Threads##", "Shenandoah Control Thread", "Concurrent Mark-Sweep GC Thread"),
        *("ForkJoinPool.commonPool-worker-#", "ForkJoinPool-#-worker-#", "VirtualThread-unparker"),
        *("JFR Recorder Thread", "JFR Sampler Thread", "JFR Periodic Tasks", "JFR Recording Scheduler"),
    }
)
_NATIVE_NAME = 15  # characters that Linux keeps of a thread's name

UNKNOWN_CLASS = "unknown class"
# Frames that stand for what is missing (recording/names/naming.py), and addresses.
_GAPS = re.compile(
    r"0x[0-9a-f]+|unknown Java method|hook \d+ of a newer probe"
    r"|(?:callers|Java frames|inlined Java methods) missing\b.*"
)
PRIMITIVES = frozenset({"boolean", "byte", "char", "double", "float", "int", "long", "short", "void"})
# Allocators whose names reports explain (docs/where.md).
ALLOCATORS = frozenset({"jemalloc", "tcmalloc", "mimalloc"})

# Neither name nor value of these flags is the application's.
_FLAG = re.compile(
    r"-XX:[+-]\w+|-XX:\w+=[\d.]+[kKmMgGtT]?|-X(?:mx|ms|mn|ss)\d+[kKmMgGtT]?|-X(?:int|comp|mixed)"
)


def is_gap(name: str) -> bool:
    return _GAPS.fullmatch(name) is not None


def is_vm_thread(name: str) -> bool:
    plain = numberless(name)
    cut = len(name) == _NATIVE_NAME and any(one.startswith(plain) for one in _THREADS)
    return plain in _THREADS or cut


def numberless(name: str) -> str:
    """A thread's name with every number as #, as gauges have it."""
    return re.sub(r"\d+", "#", name)


def public_flags(flags: Iterable[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if _FLAG.fullmatch(flag))


class PublicModules:
    """The modules of a recording whose names and functions everybody may read, by base name."""

    def __init__(self, modules: Sequence[Module]) -> None:
        homes = [str(path.parent.parent) + "/" for path in map(_path, modules) if path.name == _LIBJVM]
        others: set[str] = set()
        public: set[str] = set()
        for module in modules:
            path = _path(module)
            its = _JDK.fullmatch(path.name) and any(str(path).startswith(home) for home in homes)
            (public if its or _always(path.name) else others).add(path.name)
        # Two modules of one name, of which one is not the JDK's.
        self._names = public - others
        self.others = sorted(others - {""}, key=len, reverse=True)

    def has(self, base: str) -> bool:
        return base in self._names or _always(base)


def _always(base: str) -> bool:
    return base in (_LIBJVM, _LAUNCHER) or _RUN_TIME.fullmatch(base) is not None


def _path(module: Module) -> PurePosixPath:
    return PurePosixPath(module.path.removesuffix(" (deleted)"))
