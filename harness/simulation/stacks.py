"""Frames and stacks as the probe and the symbolizer name them."""

from __future__ import annotations

from offheap.recording.model import (
    Frame,
)


def java(name: str, line: int = 0) -> Frame:
    return Frame(name, "java", name.rpartition(".")[0], name.split(".")[-2].split("$")[0] + ".java", line)


def native(name: str, module: str = "libapp.so", file: str = "", line: int = 0) -> Frame:
    return Frame(name, "native", module, file, line)


def jvm(name: str) -> Frame:
    return Frame(name, "jvm", "libjvm.so")


MALLOC = native("malloc", "")


def inflater(*callers: str, zcalloc: bool = False) -> tuple[Frame, ...]:
    """The stack of a java.util.zip.Inflater's memory; callers are Java methods, innermost first."""
    inner = (MALLOC, native("zcalloc", "libz.so.1")) if zcalloc else (MALLOC,)
    return (
        *inner,
        native("inflateInit2_", "libz.so.1"),
        native("Java_java_util_zip_Inflater_init", "libzip.so"),
        java("java.util.zip.Inflater.init", 0),
        java("java.util.zip.Inflater.<init>", 106),
        *(java(name, 10 + i) for i, name in enumerate(callers)),
        java("java.lang.Thread.run", 840),
    )


def library(*callers: str, function: str = "Java_com_example_codec_Encoder_create") -> tuple[Frame, ...]:
    """The stack of a native context of a published library's Java object; callers are Java methods."""
    name = function.removeprefix("Java_").replace("_", ".")
    return (
        MALLOC,
        native("encoder_create", "libcodec-1.2.so"),
        native(function, "libcodec-1.2.so"),
        java(name),
        java(f"{name.rpartition('.')[0]}.<init>", 41),
        *(java(caller, 10 + i) for i, caller in enumerate(callers)),
        java("java.lang.Thread.run", 840),
    )


def compiler(*names: str) -> tuple[Frame, ...]:
    """A stack of the JVM's own: a compiler thread's arena."""
    return (
        MALLOC,
        jvm("os::malloc(unsigned long, MEMFLAGS)"),
        jvm("Arena::grow(unsigned long, AllocFailStrategy::AllocFailEnum)"),
        *(jvm(name) for name in names or ("Compile::Compile(ciEnv*, ciMethod*, int)",)),
        jvm("CompileBroker::compiler_thread_loop()"),
        jvm("thread_native_entry(Thread*)"),
        native("start_thread", "libc.so.6"),
    )


def native_stack(*names: str, module: str = "libagent.so") -> tuple[Frame, ...]:
    """A stack without Java frames; names innermost first, outside of malloc."""
    return (MALLOC, *(native(name, module) for name in names), native("start_thread", "libc.so.6"))
