"""Growth of HotSpot's own structures that the application causes is the application's, and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.jvms.zoo import Program, Running, Zoo
from harness.plugins.rotation import one_of
from harness.simulation import MALLOC, Churn, Leak, Process, compiler, java, jvm, native, native_stack
from harness.warm_command import warm
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.stacks import jvm_structures
from offheap.recording.model import Frame

# A listener is added for each request, 650 a second, and never deleted: 6 KB/s of HotSpot's OopStorage.
HANDLES = Program("jni-handles", "leaks.NativeCodec", jvm=("-Djava.library.path={native}", "-Dway=handles"))


def global_references(*callers: Frame) -> tuple[Frame, ...]:
    return (
        MALLOC,
        jvm("os::malloc(unsigned long, MEMFLAGS, NativeCallStack const&)"),
        jvm("AllocateHeap(unsigned long, MEMFLAGS, AllocFailStrategy::AllocFailEnum)"),
        jvm("OopStorage::try_add_block()"),
        jvm("OopStorage::allocate()"),
        jvm("JNIHandles::make_global(Handle, AllocFailStrategy::AllocFailEnum)"),
        jvm("jni_NewGlobalRef"),
        *callers,
    )


def interned(caller: str) -> tuple[Frame, ...]:
    return (
        MALLOC,
        jvm("os::malloc(unsigned long, MEMFLAGS)"),
        jvm("StringTable::do_intern(Handle, unsigned short const*, int, unsigned long)"),
        jvm("JVM_InternString"),
        native("Java_java_lang_String_intern", "libjava.so"),
        java("java.lang.String.intern"),
        java(caller, 12),
        java("java.lang.Thread.run", 840),
    )


def recorded(stack: tuple[Frame, ...], seconds: float = 90.0, rate: float = 10.0, seed: int = 1) -> Process:
    process = Process(seconds, seed)
    process.add(stack, Leak(rate, 600))
    process.add(native_stack("churn"), Churn(300, 7000, 0.1))
    return process


JAVA = (
    native("Java_com_example_Feed_listen"),
    java("com.example.Feed.listen"),
    java("com.example.Feed.open", 30),
)


@pytest.mark.parametrize("seed", range(8))
def test_jni_references_are_a_leak_of_who_asked_for_them(seed: int) -> None:
    """6 KB/s, sampled with the default interval: 16 samples in 90 s."""
    found = ranking(recorded(global_references(*JAVA), seed=seed).record(interval=32 << 10))
    (suspect,) = [one for one in found if "jni_NewGlobalRef" in str(one.site.stack)]
    assert suspect.verdict in ("leak", "growing")
    # The native method belongs to the library; its caller forgot the references.
    assert suspect.blamed.name == "com.example.Feed.open"
    said = "of JNI global references through com.example.Feed.listen, called by com.example.Feed.open"
    assert said in answer(found)


def test_a_library_without_java_below_it_counts_as_well() -> None:
    library = (native("remember_object", "libagent.so"), native("start_thread", "libc.so.6"))
    found = ranking(recorded(global_references(*library)).record(exact=True))
    assert found[0].verdict == "leak"
    assert answer(found).startswith("Leaking: ")
    assert "JNI global references" in answer(found)


@pytest.mark.parametrize("seed", range(6))
def test_what_a_method_interns_at_one_rate_is_no_start_up(seed: int) -> None:
    """Chance makes one third grow less than the third before: that is no slowing down."""
    found = ranking(
        recorded(interned("com.example.Names.keep"), rate=8.0, seed=seed).record(interval=8 << 10)
    )
    (suspect,) = [one for one in found if "JVM_InternString" in str(one.site.stack)]
    assert suspect.verdict in ("leak", "growing")
    assert "of interned strings" in answer(found)


def test_structures_have_names() -> None:
    assert jvm_structures.name(global_references(*JAVA)) == "JNI global references"
    assert jvm_structures.name(interned("com.example.A.b")) == "interned strings"
    assert jvm_structures.name(native_stack("decode")) == ""
    assert jvm_structures.is_handle(global_references())
    assert not jvm_structures.is_handle(interned("com.example.A.b"))
    assert not jvm_structures.is_handle(compiler())


@pytest.mark.parametrize("version", one_of([11, 17, 21, 25]))
def test_a_real_library_that_never_deletes_its_references(
    version: int, jre: Callable[[int], Path], zoo: Zoo, probe_library: Path, tmp_path: Path
) -> None:
    path = tmp_path / "handles.offheap"
    command = zoo.command(HANDLES, jre(version), 650, 25)
    with Running(offheap("run", "--exact", "-o", path, "--", *command)) as running:
        assert running.process.wait(90) == 0, running.errors
    done = warm("leaks", path, "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    (suspect,) = [
        one
        for one in value["suspects"]
        if any(f["name"].startswith("jni_NewGlobalRef") for f in one["stack"])
    ]
    assert suspect["verdict"] in ("leak", "growing"), suspect["why"]
    assert suspect["called"]["name"] == "leaks.NativeCodec.addListener"
    assert suspect["blamed"]["name"] == "leaks.NativeCodec.listenAgain"
    # 650 references a second of some 9 bytes each, with a margin for the rate that the machine reaches.
    assert 2_000 < suspect["growth_bytes_per_second"]["estimate"] < 12_000
    assert value["power"]["conclusion"] in ("leak", "growing")
    assert "JNI global references" in value["answer"]
