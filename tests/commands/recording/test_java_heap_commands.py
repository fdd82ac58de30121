"""The commands on a recording of Java objects beside native memory: each shows both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.recordings.live_file_writer import LiveFileWriter, hook, java, java_class
from harness.warm_command import warm
from offheap.probe import contract
from offheap.probe.contract import JavaHeapState, StackKind

KIB = 1 << 10
SECONDS = 100  # of the recording; the only collection comes after 90
_TICK = 100  # ticks a second


def writer() -> LiveFileWriter:
    """Blocks that leak in native memory, and carts that leak on the Java heap, some since the collection."""
    made = LiveFileWriter()
    made.follow_objects(
        64 * KIB,
        followed=400,
        most=16384,
        collections=1,
        collected=90 * _TICK,
        swept_ns=made.start_monotonic_ns + 91 * 10**9,
        spent_ns=5 * 10**6,
    )
    method = java(made.method("Lcom/example/Shop;", "open", "Shop.java", ((0, 10), (5, 11))), 6)
    block = made.stack(hook("malloc"), method)
    array = made.stack(java_class(made.string("[B")), method, kind=StackKind.JAVA)
    births = np.linspace(1, SECONDS * _TICK - 1, 400).astype(int)
    made.blocks(range(0x1000, 0x1000 + 16 * 400, 16), [600 * KIB] * 400, [block] * 400, births, [0] * 400)
    made.objects([100 * KIB] * 400, [array] * 400, births)
    made.count(block, 400, 400, 400 * 600 * KIB)
    made.count(array, 400, 400, 400 * 100 * KIB)
    return made


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return writer().write(tmp_path_factory.mktemp("java") / "offheap-1-0000000000000000.live")


def ran(*arguments: str | Path, status: int = 0) -> str:
    done = warm(*arguments)
    assert done.returncode == status, done.stderr
    return done.stdout if not status else done.stdout + done.stderr


def printed(*arguments: str | Path) -> Any:
    return json.loads(ran(*arguments, "--json"))


def test_leaks_and_summary_have_both_heaps(recorded: Path) -> None:
    text = ran("leaks", recorded, "--all", "--classes", "1")
    assert text.index("Native memory\n") < text.index("Java heap\n")
    assert "new     byte[]" in text
    heap = printed("leaks", recorded)["java_heap"]
    assert heap["state"] == "followed"
    # The objects of the last ten seconds met no collection.
    assert 34 < heap["survivors"]["bytes"]["estimate"] / (1 << 20) < 48
    assert heap["uncollected"]["objects"]["estimate"] == pytest.approx(40 / (1 - np.exp(-100 / 64)), abs=2)
    assert heap["books"] is None
    assert [one["name"] for one in heap["classes"]] == ["byte[]"]
    assert heap["suspects"][0]["kind"] == "java"
    (site,) = printed("summary", recorded)["java_heap"]["sites"]
    assert site["live_bytes"] == heap["survivors"]["bytes"]
    assert printed("summary", recorded)["malloc_bytes"]["estimate"] > 200 << 20, "without the Java heap"


def test_trees_are_of_one_or_of_both(recorded: Path) -> None:
    both = ran("tree", recorded)
    assert "Live, callers first" in both
    assert "Java heap, callers first" in both
    assert "Java heap" not in ran("tree", recorded, "--native")
    assert "Live, callers first" not in ran("tree", recorded, "--java-heap")
    assert "byte[]" in {node["frame"]["name"] for node in printed("tree", recorded)["java_heap"]["nodes"]}


def test_stats_report_and_check(recorded: Path, tmp_path: Path) -> None:
    assert "objects followed" in ran("stats", recorded)
    assert printed("stats", recorded)["java_heap"]["spent_seconds"] == 0.005
    ran("report", recorded, "-o", tmp_path / "page.md")
    assert "## Java heap" in (tmp_path / "page.md").read_text()
    ran("report", recorded, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '"java_heap":{"followed":true' in page
    checked = warm("check", recorded, "--max-java-growth", "1GiB/min", "--json")
    (one,) = json.loads(checked.stdout)["recordings"]
    assert [check["name"] for check in one["checks"]] == ["max-java-growth 1.0 GiB/min"]


def test_scaling_without_a_heap_in_use_is_refused(recorded: Path, tmp_path: Path) -> None:
    assert "the heap in use after a collection is not known" in ran(
        "leaks", recorded, "--scale-to-heap", status=2
    )
    plain = LiveFileWriter().write(tmp_path / "offheap-2-0000000000000000.live")
    for command in ("leaks", "summary"):
        assert "the recording has no Java objects" in ran(command, plain, "--scale-to-heap", status=2)
    assert "the recording has no Java objects" in ran("tree", plain, "--java-heap", status=2)
    assert printed("leaks", plain)["java_heap"] is None


def test_a_heap_that_another_agent_samples_is_told(tmp_path: Path) -> None:
    taken = writer()
    taken.header["java_heap"] = JavaHeapState.TAKEN
    taken.keys, taken.values = (rows[taken.keys < contract.OBJECT_KEY] for rows in (taken.keys, taken.values))
    path = taken.write(tmp_path / "offheap-3-0000000000000000.live")
    assert "another agent holds" in " ".join(ran("leaks", path).split())
    assert printed("leaks", path)["java_heap"]["state"] == "taken"
    assert "another agent holds" in " ".join(ran("stats", path).split())
