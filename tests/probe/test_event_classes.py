"""The event classes that the probe defines, and the texts of events that it parses."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.native.compiler import compile_c
from harness.paths import PROBE
from offheap.jfr.event_text import (
    REQUEST_BYTES,
    Event,
    LeakSuspect,
    NativeMemory,
    ResidentSet,
    clean,
    requests,
)

SCRIPT = PROBE / "jfr" / "event_classes.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("event_classes", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_c_file_is_what_the_script_writes(script: ModuleType) -> None:
    assert SCRIPT.with_suffix(".c").read_text() == script.source(), f"run {SCRIPT}"


def test_python_sends_the_fields_that_the_classes_have(script: ModuleType) -> None:
    sent: tuple[Event, ...] = (
        NativeMemory("l", "k", 1, 2, 3),
        LeakSuspect(1, "leak", 0.5, "malloc", "s", "l", 1, 2, 3, "p"),
        ResidentSet("o", 1, 2),
    )
    for number, (event, defined) in enumerate(zip(sent, script.EVENTS, strict=True)):
        assert type(event).__name__ == defined.name
        assert tuple(type(event).__slots__) == tuple(field.name for field in defined.fields)
        assert event.fields()[0] == str(number)


def test_javap_reads_the_class_files(tmp_path: Path) -> None:
    javap = needs.remedied_program("javap", needs.JDK)
    subprocess.run([sys.executable, SCRIPT, "--classes", tmp_path], check=True, timeout=60)
    names = ["offheap.NativeMemory", "offheap.LeakSuspect", "offheap.ResidentSet"]
    command = [javap, "-v", "-cp", str(tmp_path), *names]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("extends jdk.jfr.Event") == len(names)
    assert told.stdout.count('value=["offheap"]') == len(names)
    assert "public float confidence;" in told.stdout


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("fuzz") / "event_text_fuzz"
    return compile_c([PROBE / "tests" / "event_text_fuzz.c"], output, sanitizer="address,undefined")


def test_damaged_events_are_harmless(fuzzer: Path) -> None:
    outcome = subprocess.run([fuzzer, "100000", "1"], capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert int(outcome.stdout) > 10_000


numbers = st.integers(-(10**30), 10**30)
events = st.one_of(
    st.builds(NativeMemory, st.text(), st.text(), numbers, numbers, numbers),
    st.builds(
        LeakSuspect,
        numbers,
        st.text(),
        st.floats(0, 1),
        st.text(),
        st.text(),
        st.text(max_size=500),
        numbers,
        numbers,
        numbers,
        st.text(max_size=1000),
    ),
    st.builds(ResidentSet, st.text(), numbers, numbers),
)


@given(st.lists(events, max_size=40))
def test_each_request_is_within_what_every_jvm_takes(some: list[Event]) -> None:
    texts = list(requests(some))
    assert sum(text.count("\x1e") + 1 for text in texts) == len(some)
    assert all(len(text.encode()) <= REQUEST_BYTES and text.count("\x1e") < 32 for text in texts)
    assert all("\0" not in text for text in texts)


@given(st.text())
def test_cleaned_text_is_what_jni_may_see(text: str) -> None:
    cleaned = clean(text)
    assert all((c >= " " or c == "\n") and c != "\x7f" and ord(c) < 0x10000 for c in cleaned)
    assert len(cleaned.encode()) <= 120


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert clean(b"a\xffb\x1f\x1e".decode(errors="surrogateescape")) == "a?b??"
