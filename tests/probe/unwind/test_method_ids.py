"""The probe checks a jmethodID of AsyncGetCallTrace before it asks JVMTI about the method."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from harness.paths import AGENTS, PROBE

SOURCES = [
    PROBE / f"{name}.c"
    for name in (
        "jvm/method_ids",
        "jvm/vm_layout",
        "platform/elf_image",
        "platform/system",
        "unwind/stack_bounds",
    )
]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = AGENTS / "method_ids.c"
    output = tmp_path_factory.mktemp("agent") / "method_ids.so"
    return compile_c([source, *SOURCES], output, flags=["-shared", "-fPIC", "-fvisibility=hidden"])


# From JDK 26 on, an id is a number that the JVM itself checks.
@pytest.mark.parametrize("version", [11, 17, 21, 25])
def test_ids_are_told_from_other_words(version: int, jre: Callable[[int], Path], agent: Path) -> None:
    command = [str(jre(version)), f"-agentpath:{agent}", "-version"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stdout
    told = re.search(r"methods (\d+) refused (\d+), others (\d+) accepted (\d+)", outcome.stdout)
    assert told, outcome.stdout
    methods, refused, _, accepted = map(int, told.groups())
    assert methods > 1000
    assert (refused, accepted) == (0, 0)
