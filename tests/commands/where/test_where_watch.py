"""`offheap where --watch` on real JVMs: its output while it runs, and when the process ends."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.command_line import offheap
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import waiting_jvm
from harness.jvms.zoo import Running, Zoo, programs
from harness.waiting import wait_until
from harness.warm_command import warm
from offheap.jvm.counters import gauges, hsperfdata
from offheap.jvm.listener import class_loaders
from offheap.jvm.listener.class_loaders import Loaders
from offheap.proc import maps
from offheap.recording import load

STATS = """4711:
ClassLoader         Parent              CLD*               Classes   ChunkSz   BlockSz  Type
0x00000001000102f0  0x0000000000000000  0x00007ff6380dc860       0         0         0  jdk.internal.Platform
0x0000000000000000  0x0000000000000000  0x00007ff63803fdb0     699   4861952   4770720  <boot class loader>
                                            39     96256     60616   + unsafe anonymous classes
0x000000010000ffa8  0x00000001000102f0  0x00007ff6380e7070       4     20480     16296  shop.Plugin Loader
                                                                 3      9216      5104   + hidden classes
0x000000010000ffb8  0x00000001000102f0  0x00007ff6380e7080       1       512        96  shop.Plugin Loader
Total = 3                                                      745   4987904   4852736
ChunkSz: Total size of all allocated metaspace chunks
"""


def test_class_loader_statistics() -> None:
    assert class_loaders.parse(STATS) == {
        "jdk.internal.Platform": Loaders(1, 0, 0),
        "<boot class loader>": Loaders(1, 738, 4861952 + 96256),
        "shop.Plugin Loader": Loaders(2, 8, 20480 + 9216 + 512),
    }


@given(st.text(max_size=400) | st.lists(st.sampled_from(STATS.splitlines()), max_size=12).map("\n".join))
def test_any_text(text: str) -> None:
    assert all(one.loaders >= 0 for one in class_loaders.parse(text).values())


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_every_jdk_answers(version: int, jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        found = class_loaders.ask(jvm.pid)
        assert found
        assert found["<boot class loader>"].classes > 300
        performance = hsperfdata.read(jvm.pid, jvm.pid, maps.read(jvm.pid))
        assert performance
        counted = gauges.read(performance)
        assert counted["classes"] > 300
        assert counted["heap-after-collection"] >= 0
        assert counted["old-collections"] <= counted["collections"]
        assert 0 <= counted.get("since-young-collection", 0.0) < 180
        assert jvm.answers()


def wait_until_asked(pid: int) -> None:
    """The first reading has begun: the JVM has created its attach socket."""
    wait_until(Path(f"/tmp/.java_pid{pid}").exists)


def test_a_watch_that_is_ended_early(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        command = offheap("where", str(jvm.pid), "--watch", "1h", "--every", "0.5s", "--json")
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until_asked(jvm.pid)
        time.sleep(5)
        watching.terminate()
        output, errors = watching.communicate(timeout=30)
        assert watching.returncode == 0, errors
        assert jvm.answers()
    document = json.loads(output)
    watch = document["watch"]
    assert watch["ended"] == "stopped"
    assert watch["looks"] == len(watch["times"]) == len(watch["owners"]["malloc"]) >= 2
    assert [sum(column) for column in zip(*watch["owners"].values(), strict=True)] == watch["rss_bytes"]
    assert watch["rss_bytes"][-1] == document["rss_bytes"]
    assert watch["gauges"]["threads: Signal Dispatch"][-1] == 1
    ages = watch["gauges"]["age"]
    assert 0 < ages[0] < ages[-1] < 600
    assert document["verdict"]["kind"] == "cannot tell yet"
    assert document["verdict"]["needs_seconds"] >= 30


def test_a_process_that_ends(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(21), waiting_classes) as jvm:
        command = offheap("where", str(jvm.pid), "--watch", "1h", "--every", "0.5s")
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until_asked(jvm.pid)
        time.sleep(2)
        jvm.process.kill()
        jvm.process.wait()
        output, errors = watching.communicate(timeout=30)
        assert watching.returncode == 0, errors
    assert f"PID {jvm.pid} ended;" in errors
    assert "Java heap" in output
    assert "verdict    cannot tell yet" in output
    assert max(map(len, output.splitlines())) <= 80


def test_all_jvms_are_asked(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    """This test is here because tests of a file run one by one: it makes the next test's JVM listen, too."""
    with waiting_jvm(jre(21), waiting_classes) as jvm:
        asked = warm("where", "--all", "--json")
        assert asked.returncode == 0, asked.stderr
        (found,) = [one for one in json.loads(asked.stdout)["jvms"] if one["pid"] == jvm.pid]
        assert "metaspace" in {owner["owner"] for owner in found["owners"]}
        assert jvm.answers()


@pytest.mark.parametrize("way", ["run", "attach"])
def test_a_recording_keeps_the_owners(
    way: str, jre: Callable[[int], Path], zoo: Zoo, probe_library: Path, tmp_path: Path
) -> None:
    command = zoo.command(programs()["inflaters"], jre(17))
    output = tmp_path / "a.offheap"
    if way == "run":
        with Running(offheap("run", "-o", output, "--", *command)) as running:
            running.truths(6)
            assert running.exit() == 0
    else:
        with Running(command) as running:
            attach = offheap("attach", str(running.pid), "-o", output, "--duration", "6s")
            assert subprocess.run(attach, capture_output=True, timeout=60).returncode == 0
            assert running.exit() == 0
    over = load(output).owners
    assert len(over.times) >= 1
    assert over.bytes.sum(axis=1) == pytest.approx(over.rss)
    last = dict(zip(over.names, over.bytes[-1], strict=True))
    assert last["java-heap"] > 1 << 20
    assert last["malloc"] > 1 << 20
    assert last["probe"] > 1 << 20
    # `run` asks only JVMs that listen, and metaspace needs an answer of the JVM.
    assert ("metaspace" in last) == (way == "attach")
    assert last["unattributed"] < (0.15 if way == "run" else 0.03) * over.rss[-1]
    assert over.gauges["classes"][-1] > 300
    asked = warm("where", output, "--json")
    assert asked.returncode == 0, asked.stderr
    document = json.loads(asked.stdout)
    assert document["schema"] == "offheap.where/1"
    assert document["rss_bytes"] == document["watch"]["rss_bytes"][-1]
    assert document["watch"]["looks"] == len(over.times)
    text = warm("where", output)
    # Six seconds of pages tell nothing; `where` reports a leak of blocks that is certain by then.
    blocks = warm("leaks", output, "--json")
    leaks = json.loads(blocks.stdout)["power"]["conclusion"] == "leak"
    kind = "native-malloc" if leaks else "cannot tell yet"
    assert document["verdict"]["kind"] == kind
    assert f"verdict    {kind}" in text.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("1", "--every", "1s"), "--watch"),
        (("1", "--watch", "0"), "must be greater than 0"),
        (("--watch", "soon", "1"), "soon"),
        ((".", "--watch", "10s"), "leave it out"),
        ((".",), "is not a recording"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], word: str) -> None:
    outcome = warm("where", *arguments)
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert word in outcome.stderr
