"""A stack recognised by a memo equals the stack of a new walk, whatever the JVM does."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.paths import JAVA, PROBE
from harness.survival import survival_matrix
from offheap.probe import checkout

SOURCE = JAVA / "Restacks.java"
RESERVED = 2816  # offset of struct offheap_header's `reserved`, 160 words

pytestmark = needs.on_x86_64  # Java stacks are recognised on x86-64 only


# Hard cases for memos: collectors that mend stacks while threads run (ZGC, Shenandoah), redefined classes,
# frames of discarded code, a small code cache, one kind of code only, and stacks that move.
QUICK = [
    (11, "-XX:+UseSerialGC", False),
    (17, "-XX:+UseZGC", True),
    (25, "-XX:+UseG1GC", True),
    (25, "-Xint -XX:+UseSerialGC", False),
]
LONG = [
    *((version, "-XX:+UseSerialGC", True) for version in (11, 17, 21, 25)),
    *((version, "-XX:+UseG1GC", True) for version in (11, 17, 21)),
    (11, "-XX:+UnlockExperimentalVMOptions -XX:+UseZGC", True),
    (21, "-XX:+UseZGC", True),
    (21, "-XX:+UseZGC -XX:+ZGenerational", True),
    (25, "-XX:+UseZGC", True),
    *(
        (version, "-XX:+UnlockExperimentalVMOptions -XX:+UseShenandoahGC", True)
        for version in (11, 17, 21, 25)
    ),
    (11, "-Xint -XX:+UseSerialGC", True),
    (25, "-Xint -XX:+UseZGC", True),
    (17, "-Xcomp -XX:TieredStopAtLevel=1 -XX:+UseSerialGC", False),
    (21, "-Xcomp -XX:TieredStopAtLevel=1 -XX:-SegmentedCodeCache -XX:ReservedCodeCacheSize=4m", False),
    (25, "-Xcomp -XX:-TieredCompilation -XX:+UseG1GC", True),
    (25, "-XX:+UseSerialGC -Dvirtual=true", True),
    (21, "-XX:+UseZGC -XX:+ZGenerational -Dvirtual=true", True),
    (25, "-XX:+UseZGC -Dvirtual=true", True),
    *(
        (version, f"-XX:+UnlockDiagnosticVMOptions -XX:+DeoptimizeNMethodBarriersALot {collector}", True)
        for version, collector in ((17, "-XX:+UseZGC"), (25, "-XX:+UseG1GC"))
    ),
]


@pytest.fixture(scope="session")
def verifying_probe() -> Path:
    """A build that walks each stack despite its memo, and counts differences (sampling/stack_capture.c)."""
    script = checkout.build_script()
    output = PROBE.parent / "build" / "verify" / "liboffheap.so"
    library: Path = script.build_if_changed(output, flags=[*script.FLAGS, "-DVERIFY_MEMOS"])
    return library


@pytest.fixture(scope="module")
def jar(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return survival_matrix.compile_agent(jdk, SOURCE, tmp_path_factory.mktemp("restacks"))


@pytest.mark.parametrize(
    ("version", "options", "redefining"),
    [*QUICK, *(pytest.param(*row, marks=pytest.mark.slow) for row in LONG)],
)
def test_memos_agree_with_walks(
    version: int,
    options: str,
    redefining: bool,
    jre: Callable[[int], Path],
    jar: Path,
    verifying_probe: Path,
    tmp_path: Path,
) -> None:
    """GIVEN every block recorded WHEN stacks change all the time THEN each memo agrees with the walk."""
    live_file = tmp_path / "recording.live"
    command = [
        str(jre(version)),
        "-Xmx64m",
        *options.split(),
        *([f"-javaagent:{jar}"] if redefining else []),
        "-cp",
        str(jar),
        "Restacks",
        "3",
        "4" if (version, options, redefining) in QUICK else "16",
        "200",
    ]
    environment = {"LD_PRELOAD": str(verifying_probe), "OFFHEAP": f"exact,file={live_file}"}
    outcome = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240
    )
    if "Unrecognized VM option" in outcome.stderr or "not supported" in outcome.stderr:
        needs.skip(f"a JRE {version} with {options}", "use another build of that JDK in .jres")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "done\n"
    with live_file.open("rb") as file:
        file.seek(RESERVED)
        reserved = struct.unpack("<160Q", file.read(160 * 8))
    walks, found, incomparable, different = reserved[-4:]
    print(f"JDK {version} {options}: {found} of {walks} from memory, {incomparable} not to be compared")
    assert different == 0
    assert found - incomparable > 2000
