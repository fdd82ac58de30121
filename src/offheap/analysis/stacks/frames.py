"""Tells frames that only pass an allocation on from the frames that want the memory."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from offheap.analysis.stacks import cxx_names, packages
from offheap.recording.model import Frame

# Functions that allocate for any caller: C, C++, Rust and GLib
# entry points, zlib's and HotSpot's own layers.  Matched at the start of a demangled name.
_WRAPPER = re.compile(
    r"""(?x)
    (?: __libc_ | __GI_+ | je_ | tc_ | mi_ | __interceptor_ )?
    (?: malloc | calloc | realloc | reallocarray | memalign | aligned_alloc | posix_memalign | valloc
      | pvalloc | mmap(?:64)? | mremap | strdup | strndup | v?asprintf | getline | getdelim )(?:\(.*)? $
    | __(?:v?asprintf\w* | mmap(?:64)? | strdup | strndup | getdelim) $
    | operator\ new | void\*\ operator\ new | operator_new_impl
    | (?:[a-z_]*x|g_|zend_|apr_)(?:malloc|calloc|realloc|strdup|new)\w* $
    | zcalloc | zlib_alloc | z_alloc | default_zalloc
    | (?:[\w:<>,\ *&]+\ )? (?:std | __gnu_cxx)::(?:__\w+::)?(?:new_allocator | __new_allocator | allocator
        | allocator_traits | __allocate | __libcpp_ | _Vector_base | _Rb_tree | __tree | __hash_table
        | __alloc_traits | _Hashtable_alloc | __detail::_Hashtable_alloc)\b
    | __rust_alloc | __rdl_alloc | alloc::alloc | alloc::raw_vec
    # HotSpot: NMT's malloc, arenas, C-heap objects, and the mapping layer.
    | os::(?:malloc | realloc | strdup | reserve_memory | commit_memory | pd_\w+ | map_memory | attempt_
        | Linux | mmap | anon_mmap | release_memory)
    | anon_mmap | os_linux | AllocateHeap | ReallocateHeap | CHeapObj | AnyObj | ResourceObj | ArenaObj
    | MallocTracker | MemTracker | NativeCallStack | Arena::(?:Arena | grow | Amalloc | Arealloc | internal_)
    | Chunk | ChunkPool | resource_(?:allocate|reallocate) | ResourceArea | CHeapBitMap | GrowableArray
    | ReservedSpace | VirtualSpace | ArrayAllocator | MmapArrayAllocator | MallocArrayAllocator
    | Unsafe_(?:Allocate|Reallocate)Memory0?
    """
)

# Modules of the C and C++ run times: never the culprit, though they call the allocator.  CPython: the
# interpreter in an import of memray's captures, which have the Python functions as well.
_RUNTIME_MODULE = re.compile(
    r"(?:ld-linux|ld-|libc[.-]|libpthread|libdl[.-]|librt|libm[.-]|libstdc\+\+|libc\+\+|libgcc_s|"
    r"libz\.|libjemalloc|libtcmalloc|libmimalloc|liboffheap|CPython$)"
)
_RUNTIME_NAME = re.compile(r"_dl_|dlopen|pthread_create|start_thread$|clone3?$")
# A template of the standard library is compiled into the application's own module.
_RUNTIME_SOURCE = re.compile(r".*/(?:c\+\+|libcxx|libcxxabi|libstdc\+\+-v3)/")

# The JDK's own native libraries: without a known Java frame they act for the JVM.
_JDK_MODULE = re.compile(
    r"lib(?:jvm|jli|java|jimage|verify|zip|net|nio|extnet|instrument|management(?:_ext|_agent)?|prefs|awt\w*|"
    r"fontmanager|freetype|jdwp|dt_socket|jaas|j2\w+|rmi|sctp|attach|saproc|syslookup|lcms|mlib_image|javajpeg)\.so"
)

# Functions of JVMTI, as libjvm calls them: Allocate, and those that return memory which the agent frees.
_JVMTI_FUNCTION = re.compile(r"jvmti_|JvmtiEnv(?:Base)?::")

# The gap inside a compiled method whose inlined methods are unknown, as recording.names.naming writes it.
_INLINED = "inlined Java methods missing"

# Glue that the JVM generates and renames during warm-up: one call site shows different names.
_GLUE = re.compile(
    r"(?:jdk\.internal|sun)\.reflect\.|java\.lang\.reflect\.Method\.invoke|java\.lang\.invoke\.|"
    r"jdk\.internal\.foreign\.abi\."
)
_HIDDEN = re.compile(r"(\$\$Lambda)[$/.]?\w*(?:[/.+]0x[0-9a-f]+)?|[/+]0x[0-9a-f]+(?=\.|$)")


# Memory that belongs to a Java object: a Cleaner (or finalizer) frees it after the object's collection.
_OWNED = re.compile(
    r"java\.nio\.(?:Direct|Mapped)ByteBuffer\.|java\.nio\.Bits\.|java\.util\.zip\.(?:Inflater|Deflater)\.<init>$|"
    r"sun\.nio\.ch\.FileChannelImpl\.map"
)


def owned_by_object(stack: Sequence[Frame]) -> bool:
    """Whether a Java object owns the memory and the collector frees both: a direct buffer, an Inflater."""
    inner = boundary(stack)
    for frame in stack[inner:] if inner is not None else ():
        if not is_jdk(frame):
            return False
        if is_owner(frame):
            return True
    return False


def is_owner(frame: Frame) -> bool:
    """Whether the method gives memory to a JDK object that frees it."""
    return frame.kind == "java" and _OWNED.match(frame.name) is not None


def is_wrapper(frame: Frame) -> bool:
    """Whether the function allocates on behalf of its caller."""
    return frame.kind in ("native", "jvm") and _allocates_for_others(frame.name)


# Every stack ends in malloc, and matching the expression takes longer than all other tests of a frame.
@functools.lru_cache(maxsize=1 << 14)
def _allocates_for_others(name: str) -> bool:
    return _WRAPPER.match(name) is not None


def is_unsafe(frame: Frame) -> bool:
    """HotSpot's side of Unsafe.allocateMemory: inside libjvm, but for the application."""
    return frame.kind == "jvm" and frame.name.startswith("Unsafe_")


def is_glue(frame: Frame) -> bool:
    """Reflection and method-handle frames, which come and go between two calls of one site."""
    return frame.kind == "java" and _GLUE.match(frame.name) is not None


def is_jdk(frame: Frame) -> bool:
    """Whether the function is a Java method of the JDK's own packages."""
    return frame.kind == "java" and packages.is_jdk(frame.name)


def of_jdk_library(frame: Frame) -> bool:
    """Whether the function is of one of the JDK's own native libraries."""
    return frame.kind == "native" and _JDK_MODULE.match(frame.module) is not None


def stable_name(frame: Frame) -> str:
    """The name without the numbers that the JVM gives each hidden class."""
    if frame.kind not in ("java", "class") or ("$$Lambda" not in frame.name and "0x" not in frame.name):
        return frame.name
    return _HIDDEN.sub(r"\1", frame.name)


def class_of(stack: Sequence[Frame]) -> str:
    """The class of a Java object, `byte[]` or `java.lang.String`; "" of native memory."""
    return stack[0].name if stack and stack[0].kind == "class" else ""


def boundary(stack: Sequence[Frame]) -> int | None:
    """Index of the innermost Java frame; None for a stack without any."""
    return next((i for i, frame in enumerate(stack) if frame.kind == "java"), None)


def is_gap(frame: Frame) -> bool:
    """Whether the frame stands for unknown methods that the compiler inlined into the next frame."""
    return frame.kind == "unknown" and frame.name.startswith(_INLINED)


def is_inexact(stack: Sequence[Frame], index: int) -> bool:
    """Whether a compiled method also stands for unknown methods that the compiler inlined into it."""
    return index > 0 and is_gap(stack[index - 1])


def allocating(stack: Sequence[Frame]) -> int:
    """Index of the innermost frame that is no wrapper: the function that wanted memory."""
    for index, frame in enumerate(stack):
        if not is_wrapper(frame):
            return index
    return max(len(stack) - 1, 0)


def by_jvm(stack: Sequence[Frame]) -> bool:
    """Whether HotSpot itself wanted the memory: for classes, compiled code, its threads, its heap."""
    if not stack:
        return False
    for index, frame in enumerate(stack[allocating(stack) :], allocating(stack)):
        if frame.kind in ("java", "unknown") or is_unsafe(frame):
            return False
        if frame.kind == "jvm":
            return not asked_by_agent(stack, index)
        if not is_runtime(frame):
            # The JDK's libraries act for the application when Java called them.
            return boundary(stack) is None and of_jdk_library(frame)
    return False


def asked_by_agent(stack: Sequence[Frame], index: int) -> bool:
    """Whether a function of libjvm is a JVMTI function that an agent called, or is called by one."""
    outer = index
    while outer + 1 < len(stack) and stack[outer + 1].kind == "jvm":
        outer += 1
    calls = outer + 1 < len(stack) and stack[outer + 1].kind == "native"
    return calls and _JVMTI_FUNCTION.match(stack[outer].name) is not None


def is_runtime(frame: Frame) -> bool:
    """Whether the function belongs to the C and C++ run times, or allocates for its caller."""
    return frame.kind == "native" and _of_run_time(frame.name, frame.module, frame.file)


# A function has a frame for each of its lines.
@functools.lru_cache(maxsize=1 << 14)
def _of_run_time(name: str, module: str, file: str) -> bool:
    return (
        _allocates_for_others(name)
        or cxx_names.is_standard(name)
        or any(
            pattern.match(text)
            for pattern, text in (
                (_RUNTIME_MODULE, module),
                (_RUNTIME_NAME, name),
                (_RUNTIME_SOURCE, file),
            )
        )
    )
