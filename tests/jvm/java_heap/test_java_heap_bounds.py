"""Java objects where a bound is reached: tables, depth, the heap; and a JVM killed in a collection."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.heap_cases import ask, attached
from harness.jvms.objects_on_demand import (
    LARGE_BYTES,
    SMALL_BYTES,
    ObjectsOnDemand,
    attach,
    detach,
    followed,
    objects_on_demand,
    state,
    swept,
)
from harness.waiting import wait_until
from harness.warm_command import warm
from offheap import recording
from offheap.jvm.counters import hsperfdata
from offheap.probe.contract import JavaHeapState, Loss
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc import maps

pytestmark = [needs.tracing, pytest.mark.usefixtures("probe_library")]
MIB = 1 << 20
FAR = 4.0  # standard errors, as in test_java_objects.py


def test_many_classes_and_deep_stacks_take_bounded_memory_and_losses_are_said(
    jre: Callable[[int], Path], jdk: Path
) -> None:
    """Each class has a stack of its own, deeper than the probe takes, and a name of 900 letters."""
    classes, bound = 3000, 6 * MIB
    with objects_on_demand(jre(21), jdk, "serial") as program:
        live_file = attach(program, f"java,java-interval=1k,memory={bound}")
        program.do(f"classes {classes}", "gc")
        swept(live_file)
        with LiveFile(live_file) as source:
            losses = source._raw_header()["losses"]
        assert os.stat(live_file).st_blocks * 512 <= bound
        lost = int(losses[Loss.LOST_OBJECTS])
        assert classes / 4 < lost <= int(losses[Loss.LOST_STACKS]), "native blocks lose stacks as well"
        assert int(losses[Loss.TRUNCATED]) > 0.9 * classes, "a sample of each array but a few"
        found = ask("leaks", live_file, "--all", "--json")
        said = " ".join(found["java_heap"]["coverage"])
        assert re.search(r"[\d,]+ sampled objects found no place: live bytes are too low", said)
        series = recording.load(live_file).series
        without_stack = series[series["stack"] == 0]["samples"].max(initial=0)
        assert without_stack < lost / 4, "these arrays are no native memory"
        written = " ".join(warm("stats", live_file).stdout.split())
        assert "cut at the depth limit" in written
        assert "the table of stacks was full" in written
        detach(program, live_file)
        program.do("small 1000", "gc")


@pytest.mark.parametrize(
    ("version", "options", "capped"),
    [
        (21, ("-XX:+ZGenerational",), True),
        (21, ("-XX:-ZGenerational",), False),
        pytest.param(25, (), True, marks=pytest.mark.slow),
    ],
)
def test_in_generational_zgc_objects_take_a_32nd_of_the_heap(
    version: int, options: tuple[str, ...], capped: bool, jre: Callable[[int], Path], jdk: Path
) -> None:
    most = 512 * MIB // 32
    with objects_on_demand(jre(version), jdk, "z", ["-Xmx512m", *options]) as program:
        live_file = attach(program, "java,java-interval=16k")
        for _ in range(6):
            program.do("large 100")
            swept(live_file)
        program.do("gc")
        swept(live_file)
        with LiveFile(live_file) as source:
            thinned = int(source._raw_header()["java_thinned"])
        large = followed(live_file, "large")
        if capped:
            assert thinned
            assert large.rows * LARGE_BYTES <= most
        else:
            assert not thinned
            assert large.rows * LARGE_BYTES > most
        assert abs(large.bytes - 600 * LARGE_BYTES) < FAR * large.error
        detach(program, live_file)


@pytest.mark.parametrize(("version", "collector"), [(11, "serial"), (21, "g1")])
def test_a_jvm_that_is_killed_in_a_collection_leaves_a_recording(
    version: int, collector: str, jre: Callable[[int], Path], jdk: Path, tmp_path: Path
) -> None:
    output = tmp_path / "killed.offheap"
    with objects_on_demand(jre(version), jdk, collector) as program:
        with attached(program.pid, output):
            wait_until(lambda: is_followed(program))
            program.do("churn 16", "small 50000", "gc", "collect")
            wait_until(lambda: stopped_in_a_collection(program), pause=0.3)
            program.kill()
        found = ask("leaks", output, "--all", "--json")
    assert found["recording"]["ended"] == "killed"
    assert found["java_heap"]["state"] == "followed"
    objects = recording.load(output).java
    assert objects
    rows = [
        row
        for row in objects.live
        if "ObjectsOnDemand.small" in [frame.name for frame in objects.stack(row["stack"])]
    ]
    # Some 660 samples: their standard error is 4 %.
    found_bytes = sum(row["size"] / row["probability"] for row in rows)
    assert found_bytes == pytest.approx(50_000 * SMALL_BYTES, rel=0.3)


def is_followed(program: ObjectsOnDemand) -> bool:
    (live_file,) = Path("/dev/shm").glob(f"offheap-{program.pid}-*.live")
    return state(live_file) == JavaHeapState.FOLLOWED


def stopped_in_a_collection(program: ObjectsOnDemand) -> bool:
    """Stops the process if its counters say that a collection has begun and not ended; else lets it run."""
    os.kill(program.pid, signal.SIGSTOP)
    wait_until(lambda: "State:\tT" in Path(f"/proc/{program.pid}/status").read_text())
    performance = hsperfdata.read(program.pid, program.pid, maps.read(program.pid))
    assert performance
    counters = performance.values
    for name, entered in counters.items():
        if name.endswith("lastEntryTime") and int(entered) > int(counters[name.replace("Entry", "Exit")]):
            return True
    os.kill(program.pid, signal.SIGCONT)
    return False
