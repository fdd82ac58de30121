"""What benchmarks/java_frames.py takes for a call that was made: bytecode, native methods, the VM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offheap.recording.model import Kind
from zoo import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import java_frames

SOURCE = """
package sample;
public class Calls {
    static native long open(long size);
    static int[] array(int size) { return new int[size]; }
    Calls() { open(1); }
    static class Inner<T> { T same(T it) { array(2); return it; } }
}
"""


@pytest.fixture(scope="module")
def bytecode(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> java_frames.Bytecode:
    folder = tmp_path_factory.mktemp("calls")
    (folder / "Calls.java").write_text(SOURCE)
    compiler = [str(jdk / "bin" / "javac"), "-d", str(folder), str(folder / "Calls.java")]
    subprocess.run(compiler, check=True, capture_output=True, timeout=120)
    read = java_frames.Bytecode(jdk / "bin" / "javap", jdk, str(folder))
    read.read(["sample.Calls", "sample.Calls$Inner", "sample.None"])
    return read


@pytest.mark.parametrize(
    ("callee", "caller", "kind", "doubtful"),
    [
        ("sample.Calls.open", "sample.Calls.<init>", "java", False),
        ("sample.Calls.open", "sample.Calls.array", "java", True),
        ("sample.Calls.array", "sample.Calls$Inner.same", "java", False),
        ("sample.Calls.<init>", "sample.Calls$Inner.same", "java", True),
        ("sample.Calls.<clinit>", "sample.Calls$Inner.same", "java", False),
        ("Java_sample_Calls_open", "sample.Calls.open", "native", False),
        ("Java_sample_Calls_open", "sample.Calls.array", "native", True),
        ("open_sample", "sample.Calls.open", "native", False),
        ("strdup", "sample.Calls.array", "native", True),
        ("OptoRuntime::new_array_C(", "sample.Calls.array", "jvm", False),
        ("OptoRuntime::new_array_C(", "sample.Calls.<init>", "jvm", True),
        ("InterpreterRuntime::build_method_counters(", "sample.Calls.<init>", "jvm", False),
    ],
)
def test_what_a_caller_tells(
    callee: str, caller: str, kind: Kind, doubtful: bool, bytecode: java_frames.Bytecode
) -> None:
    call = java_frames.Call(callee, caller, kind)
    assert java_frames.is_doubtful(call, bytecode) is doubtful


def test_names_of_jni_functions() -> None:
    assert java_frames.jni_method("Java_a_b_1c_D_00024E_f__I") == "a.b_c.D.E.f"
