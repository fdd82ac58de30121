"""Sites: the stacks that belong together, the blamed frame, the bytes and blocks."""

from __future__ import annotations

import pytest

from harness.simulation import (
    MALLOC,
    Churn,
    Leak,
    Process,
    compiler,
    inflater,
    java,
    jvm,
    native,
    native_stack,
)
from offheap.analysis.sites.sites import group, sites
from offheap.analysis.stacks import frames
from offheap.analysis.stacks.blame import blamed
from offheap.recording.model import Frame

CALLERS = ("com.example.Foo.bar", "com.example.Main.main")


def numbers(*stacks: tuple[Frame, ...], kinds: tuple[int, ...] = ()) -> list[int]:
    """The site number of each stack."""
    process = Process(duration=1)
    for index, stack in enumerate(stacks):
        process.add(stack, Leak(rate=10, size=1000), kind=kinds[index] if kinds else 1)
    found: list[int] = group(process.record(exact=True)).of_stack[1:].tolist()
    return found


def test_all_mallocs_of_one_jni_call_are_one_site() -> None:
    first, second, other = numbers(
        inflater(*CALLERS), inflater(*CALLERS, zcalloc=True), inflater("com.example.Foo.baz", CALLERS[1])
    )
    assert first == second != other


def test_malloc_and_mmap_are_two_sites() -> None:
    first, second = numbers(native_stack("work"), native_stack("work"), kinds=(1, 2))
    assert first != second


def test_the_line_of_a_java_caller_makes_a_site() -> None:
    one, other = inflater(*CALLERS), list(inflater(*CALLERS))
    other[6] = other[6]._replace(line=99)
    first, second = numbers(one, tuple(other))
    assert first != second


def test_allocator_wrappers_do_not_split_a_native_site() -> None:
    stacks = [
        native_stack("read_block"),
        (MALLOC, native("operator new(unsigned long)", "libstdc++.so.6"), *native_stack("read_block")[1:]),
        (native("calloc", ""), native("xcalloc"), *native_stack("read_block")[1:]),
    ]
    assert len(set(numbers(*stacks))) == 1


def test_reflection_glue_and_hidden_class_numbers_do_not_split_a_site() -> None:
    def through(*glue: str) -> tuple[Frame, ...]:
        return (
            MALLOC,
            native("Java_Codec_open"),
            java("com.example.Codec.open"),
            *(java(name) for name in glue),
            java("com.example.Main.main"),
        )

    cold = through("jdk.internal.reflect.NativeMethodAccessorImpl.invoke0", "java.lang.reflect.Method.invoke")
    warm = through("jdk.internal.reflect.GeneratedMethodAccessor12.invoke", "java.lang.reflect.Method.invoke")
    assert len(set(numbers(cold, warm))) == 1
    one = through("com.example.Main$$Lambda/0x00007f0001001200.run")
    other = through("com.example.Main$$Lambda/0x00007f0001009990.run")
    assert len(set(numbers(one, other))) == 1


@pytest.mark.parametrize(
    ("stack", "name", "kind"),
    [
        (inflater(*CALLERS), "com.example.Foo.bar", "java"),
        (
            (MALLOC, native("Java_x"), java("java.util.zip.Inflater.init")),
            "java.util.zip.Inflater.init",
            "java",
        ),
        (
            native_stack("std::__1::__tree<int>::__emplace(int)", "Agent::on_thread(long)"),
            "Agent::on_thread(long)",
            "native",
        ),
        (compiler("Compile::Compile(int)"), "Compile::Compile(int)", "jvm"),
        ((MALLOC, native("JLI_MemAlloc", "libjli.so"), native("main", "java")), "JLI_MemAlloc", "jvm"),
        ((MALLOC,), "malloc", "native"),
        ((), "no stack", "unknown"),
        ((MALLOC, native("strdup", "libc.so.6"), native("parse", "libapp.so")), "parse", "native"),
    ],
)
def test_the_frame_to_look_at(stack: tuple[Frame, ...], name: str, kind: str) -> None:
    found = blamed(stack)
    assert (found.name, found.kind) == (name, kind)


UNSAFE = (
    MALLOC,
    jvm("os::malloc(unsigned long, MEMFLAGS)"),
    jvm("Unsafe_AllocateMemory0"),
    java("jdk.internal.misc.Unsafe.allocateMemory0"),
    java("com.example.Cache.put"),
)


@pytest.mark.parametrize(
    ("stack", "own"),
    [
        (compiler(), True),
        (inflater(*CALLERS), False),
        (UNSAFE, False),
        (
            (MALLOC, jvm("SymbolTable::add(char*)"), jvm("JVM_DefineClass"), java("com.example.Main.main")),
            True,
        ),
        ((MALLOC, native("zcalloc", "libz.so.1"), Frame("Java frames missing (-4)", "unknown")), False),
        (native_stack("work"), False),
        ((), False),
    ],
)
def test_what_the_jvm_has_for_itself(stack: tuple[Frame, ...], own: bool) -> None:
    assert frames.by_jvm(stack) is own


@pytest.mark.parametrize(
    "name",
    [
        "malloc",
        "operator new(unsigned long)",
        "std::__1::allocator<int>::allocate[abi:v160006](unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "os::malloc(unsigned long, MEMFLAGS, NativeCallStack const&)",
        "AllocateHeap(unsigned long, MEMFLAGS)",
        "zcalloc",
        "strdup",
        "g_malloc0",
        "xmalloc",
        "Unsafe_AllocateMemory0",
    ],
)
def test_wrappers_are_known(name: str) -> None:
    assert frames.is_wrapper(native(name))


@pytest.mark.parametrize(
    "name",
    [
        "malloc_stats_report",
        "inflateInit2_",
        "reallocate_table",
        "os::init()",
        "news",
        "keep_frame",
        "allocate",
        "xml_parse",
    ],
)
def test_functions_that_merely_sound_like_it_are_not_wrappers(name: str) -> None:
    assert not frames.is_wrapper(native(name))


def test_exact_sites_hold_what_is_live_to_the_byte() -> None:
    process = Process(duration=5, seed=3)
    one = process.add(inflater(*CALLERS), Leak(100, 7160), Churn(200, 7160, 0.1))
    two = process.add(inflater(*CALLERS, zcalloc=True), Leak(100, 32768), thread="other")
    recording = process.record(exact=True)
    (site,) = [site for site in sites(recording) if one in site.stacks]
    assert site.stacks == (one, two)
    truth = [process.truth(stack) for stack in (one, two)]
    assert site.live_blocks.low == site.live_blocks.high == truth[0][0] + truth[1][0], "of both stacks"
    assert site.live_bytes.estimate == truth[0][1] + truth[1][1]
    assert site.shown == two
    assert site.part_shown == site.paths[0]
    assert [path.live_blocks.estimate for path in site.paths] == [truth[1][0], truth[0][0]]
    assert [path.live_bytes.estimate for path in site.paths] == [truth[1][1], truth[0][1]]
    assert [frame.name for frame in site.paths[0].inner] == [
        frame.name for frame in site.stack[: len(site.paths[0].inner)]
    ]
    assert site.paths[0].inner[-1].name == "inflateInit2_"
    assert site.live_bytes.low == site.live_bytes.high == sum(size for _, size in truth)
    assert site.allocated_bytes.estimate == sum(float(process.blocks[s].sizes.sum()) for s in (one, two))
    assert site.stack == inflater(*CALLERS, zcalloc=True), "shown is the member with the most live bytes"
    assert site.threads == ("other", "worker")


def test_a_site_whose_blocks_are_all_freed_still_has_an_upper_bound() -> None:
    process = Process(duration=20, seed=1)
    stack = process.add(inflater(*CALLERS), Churn(200, 40000, 0.001))
    (site,) = [site for site in sites(process.record()) if stack in site.stacks]
    assert site.live_bytes.estimate == 0
    assert 0 < site.live_bytes.high < 2e6
    assert site.allocated_bytes.low > 1e8
