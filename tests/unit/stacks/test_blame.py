"""The blamed frame, the function that it called, and the frames that a short stack leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.simulation import MALLOC, Leak, Process, inflater, java, jvm, native
from offheap.analysis.stacks.blame import blamed, called, nobody_called, through
from offheap.analysis.stacks.callbacks import callback
from offheap.analysis.stacks.folding import folds
from offheap.analysis.stacks.packages import FRAMEWORKS, Application
from offheap.recording.model import Frame

RUN = (java("java.util.concurrent.ThreadPoolExecutor.runWorker"), java("java.lang.Thread.run"))
ACME = Application(("com.acme",))
ZSTD = (
    MALLOC,
    native("ZSTD_createCStream", "libzstd-jni.so"),
    native("Java_com_github_luben_zstd_ZstdOutputStreamNoFinalizer_createCStream", "libzstd-jni.so"),
    java("com.github.luben.zstd.ZstdOutputStreamNoFinalizer.createCStream"),
    java("com.github.luben.zstd.ZstdOutputStreamNoFinalizer.<init>"),
    java("com.github.luben.zstd.ZstdOutputStream.<init>"),
)


@pytest.mark.parametrize("application", [Application(), ACME])
def test_a_library_is_called_by_the_application(application: Application) -> None:
    stack = (*ZSTD, java("com.acme.Archive.store"), java("com.acme.Main.main"))
    chosen = blamed(stack, application)
    assert chosen.name == "com.acme.Archive.store"
    assert (
        through(stack, chosen)
        == "com.github.luben.zstd.ZstdOutputStream.<init>, called by com.acme.Archive.store"
    )


def test_streams_of_the_jdk_between_the_two_are_neither() -> None:
    stack = (*ZSTD, java("java.io.FilterOutputStream.write"), java("com.acme.Archive.store"), *RUN)
    chosen = blamed(stack)
    found = called(stack, chosen)
    assert chosen.name == "com.acme.Archive.store"
    assert found is not None
    assert found.name == "com.github.luben.zstd.ZstdOutputStream.<init>"


def test_frameworks_on_both_sides_of_the_application_are_passed_over() -> None:
    stack = (
        MALLOC,
        jvm("Unsafe_AllocateMemory0"),
        java("jdk.internal.misc.Unsafe.allocateMemory0"),
        java("java.nio.ByteBuffer.allocateDirect"),
        java("io.netty.buffer.PoolArena$DirectArena.allocateDirect"),
        java("io.netty.buffer.AbstractByteBufAllocator.directBuffer"),
        java("io.grpc.netty.NettyWritableBufferAllocator.allocate"),
        java("org.acme.Handler.channelRead"),
        java("io.netty.channel.AbstractChannelHandlerContext.invokeChannelRead"),
        java("io.netty.channel.nio.NioEventLoop.run"),
        *RUN,
    )
    chosen = blamed(stack)
    assert through(stack, chosen) == (
        "io.netty.buffer.AbstractByteBufAllocator.directBuffer, called by org.acme.Handler.channelRead"
    )


def test_of_two_projects_the_main_class_tells_which_is_the_application() -> None:
    stack = (
        *ZSTD,
        java("org.shared.Cache.put"),
        java("com.acme.Orders.load"),
        java("org.unknown.Runner.run"),
    )
    assert blamed(stack, ACME).name == "com.acme.Orders.load"
    assert blamed(stack).name == "org.shared.Cache.put", "what called the library, where nobody tells more"


def test_what_is_told_is_the_application_whatever_else_is_known() -> None:
    stack = (*ZSTD, java("com.acme.Archive.store"), java("io.netty.channel.nio.NioEventLoop.run"), *RUN)
    told = Application(("io.netty",), told=True)
    assert blamed(stack, told).name == "io.netty.channel.nio.NioEventLoop.run"
    none = Application(("com.other",), told=True)
    assert nobody_called(stack, none) == "no application code is on the stack, io.netty runs it by itself"


def test_the_application_alone_is_blamed_innermost_first() -> None:
    stack = (MALLOC, native("decode"), java("com.acme.Codec.decode"), java("com.acme.Images.load"), *RUN)
    chosen = blamed(stack)
    assert through(stack, chosen) == "com.acme.Codec.decode, called by com.acme.Images.load", (
        "a native method"
    )
    downcall = (
        native("strdup", "libc.so.6"),
        java("com.acme.Codec.decode", 7),
        java("com.acme.Images.load", 9),
        *RUN,
    )
    chosen = blamed(downcall)
    assert (chosen.name, called(downcall, chosen)) == ("com.acme.Codec.decode", None), "a foreign function"
    zipped = inflater("com.acme.Images.load", "com.acme.Main.main")
    chosen = blamed(zipped)
    assert through(zipped, chosen) == "java.util.zip.Inflater.<init>, called by com.acme.Images.load"


def test_a_class_without_a_package_is_the_applications() -> None:
    stack = (*ZSTD, java("org.shared.Cache.put"), java("Demo.fill"), java("Demo.main"))
    assert blamed(stack).name == "Demo.fill"


def test_generated_classes_are_not_blamed() -> None:
    lambda_ = java("com.acme.Archive$$Lambda/0x00007f0001001200.run")
    stack = (
        *ZSTD,
        lambda_,
        java("org.springframework.cglib.proxy.MethodProxy.invoke"),
        java("com.acme.Jobs.run"),
    )
    assert blamed(stack).name == "com.acme.Jobs.run"


def test_jna_is_a_library_though_its_package_begins_as_the_jdks() -> None:
    stack = (
        MALLOC,
        native("ffi_call", "jna123.tmp"),
        java("com.sun.jna.Native.invokePointer"),
        java("com.sun.jna.Library$Handler.invoke"),
        java("com.sun.proxy.$Proxy4.strdup"),
        java("com.acme.Labels.print"),
    )
    chosen = blamed(stack)
    assert through(stack, chosen) == "com.sun.jna.Library$Handler.invoke, called by com.acme.Labels.print"


def test_a_thread_without_application_code_says_so() -> None:
    stack = (
        MALLOC,
        java("java.nio.ByteBuffer.allocateDirect"),
        java("io.netty.buffer.PoolArena.allocateDirect"),
        java("io.netty.channel.nio.NioEventLoop.run"),
        *RUN,
    )
    chosen = blamed(stack, ACME)
    assert chosen.name == "io.netty.buffer.PoolArena.allocateDirect"
    assert nobody_called(stack, ACME) == "no application code is on the stack, io.netty runs it by itself"
    background = (*ZSTD, *RUN)
    assert nobody_called(background, ACME) == "no code of com.acme is on the stack"
    assert nobody_called(background) == "", "a library of its own may be the application"
    assert nobody_called(inflater("com.acme.Images.load"), ACME) == ""
    assert nobody_called((MALLOC, native("work")), ACME) == ""


@pytest.mark.parametrize(
    ("main", "packages"),
    [
        ("com.acme.shop.Main", ("com.acme",)),
        ("shop.module/com.acme.shop.Main", ("com.acme",)),
        ("org.apache.catalina.startup.Bootstrap", ()),
        ("org.springframework.boot.loader.JarLauncher", ()),
        ("com.sun.tools.javac.Main", ()),
        ("/opt/shop.jar", ()),
        ("Demo", ()),
        ("", ()),
    ],
)
def test_the_main_class_tells_the_applications_packages(main: str, packages: tuple[str, ...]) -> None:
    info = replace(Process(1).record(exact=True).info, main_class=main)
    assert Application.of(info).packages == packages
    assert Application.of(replace(info, application=("org.mine",))) == Application(("org.mine",), told=True)


def test_each_framework_has_its_reason_and_is_named_once() -> None:
    packages = [package for reason, some in FRAMEWORKS for package in some if reason]
    assert len(packages) == len(set(packages))


AGENTS = (
    native("on_sampled(_jvmtiEnv*)", "libwatch.so"),
    jvm("JvmtiExport::post_sampled_object_alloc(JavaThread*, oop)"),
)
ALLOCATION = (
    jvm("MemAllocator::allocate() const"),
    jvm("OptoRuntime::new_array_C(Klass*, int, JavaThread*)"),
)


@pytest.mark.parametrize(
    ("inner", "event", "name"),
    [
        (AGENTS, "SampledObjectAlloc", "on_sampled(_jvmtiEnv*)"),
        (
            (
                native("std::map<long, Birth>::operator[](long const&)", "libwatch.so"),
                native("remember", "libwatch.so"),
                *AGENTS,
            ),
            "SampledObjectAlloc",
            "remember",
        ),
        (
            (
                jvm("os::malloc(unsigned long, MEMFLAGS)"),
                jvm("JvmtiEnvBase::allocate(long, unsigned char**)"),
                jvm("jvmti_GetClassSignature"),
                *AGENTS,
            ),
            "SampledObjectAlloc",
            "on_sampled(_jvmtiEnv*)",
        ),
        (
            (AGENTS[0], jvm("JvmtiVMObjectAllocEventCollector::~JvmtiVMObjectAllocEventCollector()")),
            "VMObjectAlloc",
            "on_sampled(_jvmtiEnv*)",
        ),
        (
            (AGENTS[0], jvm("JvmtiClassFileLoadHookPoster::post_to_env(JvmtiEnv*, bool)")),
            "ClassFileLoadHook",
            "on_sampled(_jvmtiEnv*)",
        ),
        (
            (AGENTS[0], jvm("JvmtiExport::post_exception_throw(JavaThread*, Method*)")),
            "Exception",
            "on_sampled(_jvmtiEnv*)",
        ),
        ((AGENTS[0], jvm("libjvm.so+0x123456")), "", "on_sampled(_jvmtiEnv*)"),
        ((AGENTS[0], native("__restore_rt", "libc.so.6")), "signal", "on_sampled(_jvmtiEnv*)"),
    ],
)
def test_an_agents_callback_is_the_agents(inner: tuple[Frame, ...], event: str, name: str) -> None:
    stack = (MALLOC, *inner, *ALLOCATION, java("com.acme.Orders.load"), java("com.acme.Main.main"))
    found = callback(stack)
    assert found is not None
    assert found.event == event
    assert blamed(stack, ACME).name == name


@pytest.mark.parametrize(
    "stack",
    [
        # A native method, a library's initialization, HotSpot's own memory, another agent's start.
        (MALLOC, native("work", "libfoo.so"), java("com.acme.Codec.decode")),
        (
            MALLOC,
            native("init", "libfoo.so"),
            native("call_init", "ld-linux-x86-64.so.2"),
            native("dlopen", "libc.so.6"),
            jvm("os::dll_load(char const*, char*, int)"),
            native("Java_java_lang_Runtime_load", "libjava.so"),
            java("java.lang.Runtime.load"),
        ),
        (
            MALLOC,
            jvm("os::malloc(unsigned long, MEMFLAGS)"),
            jvm("SymbolTable::add(char*)"),
            java("com.acme.Main.main"),
        ),
        (
            MALLOC,
            native("Agent_OnLoad", "libfoo.so"),
            jvm("JvmtiAgent::load(outputStream*)"),
            native("start_thread", "libc.so.6"),
        ),
        (MALLOC, native("loop", "libfoo.so"), native("start_thread", "libc.so.6")),
    ],
)
def test_what_is_no_callback(stack: tuple[Frame, ...]) -> None:
    assert callback(stack) is None


def pipeline(depth: int) -> tuple[Frame, ...]:
    """A handler of the application deep in a framework's pipeline."""
    return (
        MALLOC,
        native("codec_new", "libcodec.so"),
        native("Java_org_codec_Codec_open", "libcodec.so"),
        java("org.codec.Codec.open"),
        *(java(f"org.codec.Codec.step{n}") for n in range(20)),
        java("org.codec.Codec.create"),
        java("com.acme.Handler.read"),
        *(java(f"io.netty.channel.Context.invoke{n}") for n in range(depth)),
        java("com.acme.Filter.pass"),
        *(java(f"io.netty.channel.Context.fire{n}") for n in range(depth)),
        *RUN,
    )


def test_a_long_stack_keeps_what_tells_the_story() -> None:
    stack = pipeline(12)
    chosen = blamed(stack, ACME)
    found = folds(stack, chosen)
    left_out = {index for fold in found for index in range(fold.start, fold.stop)}
    shown = [frame.name for index, frame in enumerate(stack) if index not in left_out]
    assert {
        "malloc",
        "codec_new",
        "Java_org_codec_Codec_open",
        "org.codec.Codec.open",
        "org.codec.Codec.create",
        "com.acme.Handler.read",
        "com.acme.Filter.pass",
        "java.lang.Thread.run",
    } <= set(shown)
    assert len(shown) <= 16
    assert [fold.text for fold in found][-2:] == [
        "... 12 frames of io.netty",
        "... 13 frames of io.netty and the JDK",
    ]
    assert len(shown) + sum(fold.stop - fold.start for fold in found) == len(stack)


def test_a_short_stack_is_whole() -> None:
    stack = inflater("com.acme.Images.load", "com.acme.Main.main")
    assert folds(stack, blamed(stack)) == ()


def test_recorded_application_frames_reach_the_suspect() -> None:
    process = Process(duration=20, seed=1)
    process.add((*ZSTD, java("com.example.Archive.store"), *RUN), Leak(100, 8192))
    from offheap.analysis.leaks.leaks import ranking

    (first,) = [suspect for suspect in ranking(process.record(exact=True)) if suspect.verdict == "leak"]
    assert first.blamed.name == "com.example.Archive.store"
    assert first.called is not None
    assert first.called.name == "com.github.luben.zstd.ZstdOutputStream.<init>"


GAP = Frame("inlined Java methods missing: no debug record at the call", "unknown")


def test_a_method_that_others_were_inlined_in_is_not_blamed() -> None:
    inexact = (MALLOC, native("Java_x"), GAP, java("com.acme.Codec.decode"))
    stack = (*inexact, java("com.acme.Images.load"), *RUN)
    chosen = blamed(stack)
    assert chosen.name == "com.acme.Images.load"
    assert (
        through(stack, chosen)
        == "a method inlined into com.acme.Codec.decode, called by com.acme.Images.load"
    )
    alone = (*inexact, *RUN)
    assert through(alone, blamed(alone, ACME)) == "a method inlined into com.acme.Codec.decode"
    library = (
        MALLOC,
        native("Java_x"),
        GAP,
        java("org.codec.Codec.open"),
        java("com.acme.Images.load"),
        *RUN,
    )
    assert through(library, blamed(library)) == "org.codec.Codec.open, called by com.acme.Images.load"
