"""The calls that the Java frames benchmark accepts as real: bytecode, native methods, the VM."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from harness.evaluation import java_calls
from harness.evaluation.java_calls import Call
from offheap.recording.model import Frame, Kind

OF_THE_JDK = ("java.lang.Object", "jdk.internal.misc.Unsafe")
SOURCE = """
package sample;
public class Calls {
    static native long open(long size);
    static int[] array(int size) { return new int[size]; }
    Calls() { open(1); }
    static void pop() {}
    static String text(int size) { return "size " + size; }
    static class Inner<T> { T same(T it) { array(2); return it; } }
}
"""


@pytest.fixture(scope="module")
def bytecode(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> java_calls.Bytecode:
    folder = tmp_path_factory.mktemp("calls")
    (folder / "Calls.java").write_text(SOURCE)
    compiler = [str(jdk / "bin" / "javac"), "-d", str(folder), str(folder / "Calls.java")]
    subprocess.run(compiler, check=True, capture_output=True, timeout=120)
    read = java_calls.Bytecode(jdk / "bin" / "javap", jdk, str(folder))
    read.read(["sample.Calls", "sample.Calls$Inner", "sample.None", *OF_THE_JDK])
    return read


@pytest.mark.parametrize(
    ("callee", "caller", "kind", "told"),
    [
        ("sample.Calls.open", "sample.Calls.<init>", "java", True),
        ("sample.Calls.open", "sample.Calls.array", "java", False),
        ("sample.Calls.open", "sample.Calls.text", "java", False),  # although it has an invokedynamic
        ("sample.Calls$$Lambda.run", "sample.Calls.text", "java", None),
        ("java.lang.invoke.LambdaForm$MH.invoke", "sample.Calls.array", "java", None),
        ("sample.Calls.array", "sample.Calls$Inner.same", "java", True),
        ("sample.Calls.<init>", "sample.Calls$Inner.same", "java", False),
        ("sample.Calls.pop", "sample.Calls$Inner.same", "java", False),  # although it has the opcode
        ("sample.Calls.<clinit>", "sample.Calls$Inner.same", "java", None),
        ("sample.Calls.array", "sample.Calls.open", "java", None),
        ("sample.Calls.array", "sample.Hidden.same", "java", None),
        ("java.lang.ref.Finalizer.register", "java.lang.Object.<init>", "java", True),
        ("Java_sample_Calls_open", "sample.Calls.open", "native", True),
        ("Java_sample_Calls_open", "sample.Calls.array", "native", False),
        ("open_sample", "sample.Calls.open", "native", None),
        ("strdup", "sample.Calls.array", "native", False),
        ("OptoRuntime::new_array_C(", "sample.Calls.array", "jvm", True),
        ("OptoRuntime::new_array_C(", "sample.Calls.<init>", "jvm", False),
        ("Runtime1::new_type_array(", "sample.Calls.array", "jvm", True),
        ("InterpreterRuntime::resolve_from_cache(", "sample.Calls.<init>", "jvm", True),
        ("InterpreterRuntime::resolve_from_cache(", "sample.Calls.array", "jvm", False),
        ("InterpreterRuntime::build_method_counters(", "sample.Calls.<init>", "jvm", None),
        ("Unsafe_AllocateMemory0", "jdk.internal.misc.Unsafe.allocateMemory0", "jvm", True),
        ("Unsafe_AllocateMemory0", "jdk.internal.misc.Unsafe.freeMemory0", "jvm", False),
    ],
)
def test_what_a_caller_tells(
    callee: str, caller: str, kind: Kind, told: bool | None, bytecode: java_calls.Bytecode
) -> None:
    assert java_calls.tells(Call(callee, caller, kind), bytecode) is told


def seen(*calls: Call) -> java_calls.Seen:
    return java_calls.Seen(joined=1, lost=0, early=0, inexact=0, walks={}, calls=Counter(calls))


def test_what_no_run_confirms_is_wrong_or_not_told(bytecode: java_calls.Bytecode) -> None:
    """GIVEN calls that bytecode confirms, denies or not WHEN a run repeats some THEN the rest is judged."""
    told = Call("sample.Calls.open", "sample.Calls.<init>", "java")
    denied = [Call("strdup", "sample.Calls.array", "native"), Call("strdup", "sample.Calls.text", "native")]
    left_open = [
        Call("open_sample", "sample.Calls.open", "native"),
        Call("dup", "sample.Calls.open", "native"),
    ]
    reference = seen(denied[0], left_open[0])
    judged = java_calls.judge(Counter([told, *denied, *left_open]), [lambda: reference], bytecode)
    assert (judged.wrong, judged.open) == ({denied[1]: 1}, {left_open[1]: 1})


def test_planted_frames_are_found_out(bytecode: java_calls.Bytecode) -> None:
    """GIVEN a run whose calls are all true WHEN a frame of each stack is replaced THEN that is found."""
    run = seen(
        Call("Java_sample_Calls_open", "sample.Calls.open", "native"),
        Call("sample.Calls.open", "sample.Calls.<init>", "java"),
        Call("OptoRuntime::new_array_C(", "sample.Calls.array", "jvm"),
        Call("sample.Calls.array", "sample.Calls$Inner.same", "java"),
    )
    tally, plants, lines = java_calls.compare(lambda options: run, bytecode)
    assert (tally.wrong, tally.open, lines) == (0, 0, [])
    assert plants.calls == plants.wrong > 0


def test_a_foreign_function_is_stated_as_called_by_what_called_the_handle() -> None:
    java = (
        "java.lang.invoke.LambdaForm$MH.invoke",
        "jdk.internal.foreign.abi.DowncallStub.invoke",
        "a.B.dup",
    )
    frames = [Frame("malloc", "native"), Frame("strdup", "native"), *(Frame(name, "java") for name in java)]
    calls = list(java_calls.stated(frames))
    assert [call.callee for call in calls] == ["strdup", *java[:2], "strdup"]
    assert [call.caller for call in calls] == [*java, "a.B.dup"]


def test_names_are_without_what_differs_from_run_to_run() -> None:
    frames = [
        Frame("lib8c2f1a90-12ab-4cde-8f01-23456789abcd-x.so+0x12", "native"),
        Frame("jdk.internal.reflect.GeneratedMethodAccessor12.invoke", "java"),
    ]
    (call,) = java_calls.stated(frames)
    assert call.callee == "lib-x.so+0x12"
    assert call.caller == "jdk.internal.reflect.GeneratedMethodAccessor.invoke"


def test_names_of_jni_functions() -> None:
    assert java_calls.jni_method("Java_a_b_1c_D_00024E_f__I") == "a.b_c.D.E.f"
