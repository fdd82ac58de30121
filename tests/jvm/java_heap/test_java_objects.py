"""The probe follows Java objects on real JVMs: as many as live, and no longer than they live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.objects_on_demand import (
    COLLECTORS,
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
from harness.plugins.rotation import one_a_row
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe.contract import JavaHeapState
from offheap.probe.live_files.live_file import LiveFile

pytestmark = [needs.tracing, pytest.mark.usefixtures("probe_library")]

# Standard errors that an estimate may be off: chance exceeds it once in 15,000 tests.
FAR = 4.0


# In generational ZGC, which is ZGC from JDK 24 on, followed objects take at most a 32nd of the heap.
ROOM = "-Xmx2g"


@pytest.mark.parametrize(("version", "collector"), one_a_row(JRE_VERSIONS, COLLECTORS))
def test_objects_are_counted_while_they_live(
    version: int, collector: str, jre: Callable[[int], Path], jdk: Path
) -> None:
    with objects_on_demand(jre(version), jdk, collector, [ROOM]) as program:
        count_while_they_live(program)


def test_generations_of_zgc_change_nothing(jre: Callable[[int], Path], jdk: Path) -> None:
    with objects_on_demand(jre(21), jdk, "z", [ROOM, "-XX:+ZGenerational"]) as program:
        count_while_they_live(program)


def count_while_they_live(program: ObjectsOnDemand) -> None:
    live_file = attach(program, "java,java-interval=16k")
    program.do("small 50000", "large 300", "churn 64", "gc")
    swept(live_file)
    small, large = (followed(live_file, method, itself=True) for method in ("small", "large"))
    assert small.classes == large.classes == {"[B"}
    assert abs(small.bytes - 50_000 * SMALL_BYTES) < FAR * small.error
    # Nearly every array that is as large as four intervals is a sample.
    assert abs(large.bytes - 300 * LARGE_BYTES) < FAR * large.error
    assert 280 < large.rows <= 300
    assert followed(live_file, "churn").rows <= 1  # the program's last one
    program.do("drop", "gc")
    swept(live_file)
    # Below `small` the JDK may allocate a small array of its own, which it keeps.
    assert followed(live_file, "small").rows <= 1
    assert followed(live_file, "large").rows == 0
    detach(program, live_file)
    AttachedVM(program.pid).jcmd("GC.run")
    program.do("small 1000")


def test_thinned_objects_count_for_the_others(jre: Callable[[int], Path], jdk: Path) -> None:
    with objects_on_demand(jre(17), jdk, "g1") as program:
        live_file = attach(program, "java,java-interval=4k,java-objects=256")
        for _ in range(12):
            program.do("small 5000")
            swept(live_file)
        program.do("gc")
        swept(live_file)
        with LiveFile(live_file) as source:
            header = source._raw_header()
        assert header["java_thinned"] >= 2
        assert header["java_most"] == 256
        assert header["java_followed"] <= 192
        small = followed(live_file, "small")
        assert small.rows > 30
        lost = int(header["losses"][14])
        # What found no slot is lost, and counted: it makes the estimate smaller by that much.
        assert abs(small.bytes - 60_000 * SMALL_BYTES) < FAR * small.error + lost * 64 * 1024
        detach(program, live_file)


def test_detached_and_attached_again(jre: Callable[[int], Path], jdk: Path) -> None:
    with objects_on_demand(jre(21), jdk, "g1") as program:
        for _ in range(3):
            live_file = attach(program, "java,java-interval=16k")
            assert state(live_file) == JavaHeapState.FOLLOWED
            program.do("small 20000", "churn 16")
            assert followed(live_file, "small").rows > 100
            detach(program, live_file)
            program.do("drop", "small 1000", "gc")
