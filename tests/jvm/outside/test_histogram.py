"""The Java heap by class: text of every JDK, and growth in real JVMs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.jvms.footprint import DIRECT, HEAP, compile_footprint, footprint_jvm
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import waiting_jvm
from harness.plugins.rotation import one_of
from harness.warm_command import warm
from offheap.analysis.owners.heap_growth import heap_growth
from offheap.jvm.listener import histogram
from offheap.jvm.listener.histogram import ClassCount, Histogram

MIB = 1 << 20
TEXT = """ num     #instances         #bytes  class name (module)
-------------------------------------------------------
   1:          5000        4000000  [B (java.base@17.0.9)
   2:            10            320  [[Ljava.lang.String; (java.base@17.0.9)
   3:             3             96  shop.Order
   4:             2             64  shop.Order
Total          5015        4000480
"""


def test_names_and_sums() -> None:
    assert histogram.parse(TEXT) == {
        "byte[]": ClassCount(5000, 4_000_000),
        "java.lang.String[][]": ClassCount(10, 320),
        "shop.Order": ClassCount(5, 160),
    }
    assert histogram.parse("Unknown diagnostic command") == {}


@given(st.lists(st.sampled_from(TEXT.split("\n")) | st.text(max_size=40), max_size=20))
def test_any_lines(lines: list[str]) -> None:
    histogram.parse("\n".join(lines))


def test_what_grew() -> None:
    first = Histogram(histogram.parse(TEXT), 10.0, 0.1)
    grown = {
        **first.classes,
        "shop.Order": ClassCount(100_005, 9_000_160),
        "byte[]": ClassCount(4000, 3_000_000),
    }
    found = heap_growth(first, Histogram(grown, 20.0, 0.2), None)
    assert [one.name for one in found.classes] == ["shop.Order"]
    assert (found.classes[0].more_instances, found.classes[0].more_bytes) == (100_000, 9_000_000)
    assert (found.growth, found.seconds) == (8_000_000, 10.0)
    assert found.pause == pytest.approx(0.3)
    assert found.dump
    still = heap_growth(first, Histogram(first.classes, 20.0, 0.2), None)
    assert (still.growth, still.classes, still.dump) == (0, (), False)
    assert still.direct.bytes is None


def test_native_memory_that_objects_hold() -> None:
    """696 Deflaters in a map: the heap is small and does not grow, yet a heap dump shows the holder."""

    def at(taken: float, held: int) -> Histogram:
        counts = {"java.util.zip.Deflater": ClassCount(held, 64 * held)}
        return Histogram({**counts, "java.util.HashMap$Node": ClassCount(held, 32 * held)}, taken, 0.1)

    found = heap_growth(at(0, 696), at(10, 696), None)
    assert found.dump
    assert "live objects hold native memory (696 Deflaters up to 174 MiB): a heap dump tool" in found.why
    (holder,) = found.holders
    assert (holder.name, holder.instances, holder.more_bytes) == ("java.util.zip.Deflater", 696, 0)
    assert holder.bytes == 696 * 4 * 65_536
    # 20 live Deflaters are normal for a JVM; their growth is not.
    assert not heap_growth(at(0, 20), at(10, 20), None).dump
    assert heap_growth(at(0, 20), at(10, 30), None).dump


@pytest.mark.parametrize("version", one_of(JRE_VERSIONS))
def test_a_jvm_whose_objects_hold_native_memory(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes, main="Holding") as jvm:
        command = ("where", str(jvm.pid), "--histogram", "0.1s")
        found = json.loads(warm(*command, "--json").stdout)
        assert found["histogram"]["heap_dump_next"] is True
        (holder,) = [one for one in found["histogram"]["native_holders"] if one["name"].endswith("Deflater")]
        assert 100 <= holder["instances"] < 110
        text = warm(*command).stdout
        assert f"jcmd {jvm.pid} GC.heap_dump" in text


@pytest.mark.parametrize("version", one_of(JRE_VERSIONS))
def test_every_jdk(version: int, jre: Callable[[int], Path], jdk: Path) -> None:
    options = ("-XX:NativeMemoryTracking=summary",)
    with footprint_jvm(jre(version), compile_footprint(jdk), "serial", *options) as jvm:
        outcome = warm("where", str(jvm.pid), "--histogram", "0.1s", "--json")
        assert outcome.returncode == 0, outcome.stderr
        found = json.loads(outcome.stdout)["histogram"]
        assert HEAP < found["live_bytes"] < HEAP + 16 * MIB
        assert abs(found["growth_bytes"]) < MIB
        # The advice follows from the native memory of the objects, not from the heap, which does not grow.
        assert found["heap_dump_next"] is True
        assert "60 Deflaters up to 15.0 MiB, 60 Inflaters up to 2.3 MiB" in found["why"]
        direct = found["direct_buffers"]
        # The mapped file's buffer owns no memory, nor do the JDK's views of its own modules.
        assert 25 <= direct.pop("buffers") < 50
        assert direct == {"owning": 24, "blocks": 24, "bytes": DIRECT}
        assert jvm.answers()
