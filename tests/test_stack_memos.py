"""A stack recognised without walking it anew is the stack that a walk finds, whatever the JVM does."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from offheap import checkout

SOURCE = Path(__file__).parent / "java" / "Restacks.java"
RESERVED = 2816  # offset of struct offheap_header's `reserved`, 160 words

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="Java stacks are recognised on x86-64 only"
)


@pytest.fixture(scope="module")
def verifying_probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build that walks each stack all the same, and counts what differs (stacks.c)."""
    script = checkout.build_script()
    library: Path = tmp_path_factory.mktemp("probe") / "liboffheap.so"
    script.build(library, flags=[*script.FLAGS, "-DVERIFY_MEMOS"])
    return library


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-nowarn", "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize(
    ("version", "options"),
    [
        (11, "-XX:+UseSerialGC"),
        (17, "-XX:+UseG1GC"),
        (21, "-XX:+UseSerialGC"),
        (25, "-XX:+UseG1GC"),
        (11, "-Xint -XX:+UseSerialGC"),
        (25, "-Xint -XX:+UseSerialGC"),
        (17, "-Xcomp -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        (21, "-Xcomp -XX:TieredStopAtLevel=1 -XX:-SegmentedCodeCache -XX:ReservedCodeCacheSize=4m"),
        (25, "-XX:+UseSerialGC -Dvirtual=true"),
    ],
)
def test_memos_agree_with_walks(
    version: int,
    options: str,
    jre: Callable[[int], Path],
    classes: Path,
    verifying_probe: Path,
    tmp_path: Path,
) -> None:
    """GIVEN every block recorded WHEN stacks change all the time THEN no memo says another than the walk."""
    live_file = tmp_path / "recording.live"
    command = [
        str(jre(version)),
        "-Xmx64m",
        *options.split(),
        "-cp",
        str(classes),
        "Restacks",
        "3",
        "4",
        "200",
    ]
    environment = {"LD_PRELOAD": str(verifying_probe), "OFFHEAP": f"exact,file={live_file}"}
    outcome = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "done\n"
    with live_file.open("rb") as file:
        file.seek(RESERVED)
        reserved = struct.unpack("<160Q", file.read(160 * 8))
    walks, found, incomparable, different = reserved[-4:]
    print(f"JDK {version} {options}: {found} of {walks} from memory, {incomparable} not to be compared")
    assert different == 0
    assert found - incomparable > 2000
