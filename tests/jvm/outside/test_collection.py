"""Memory that waits for a collection is no leak once one is requested: direct buffers on real JVMs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.command_line import offheap
from harness.jvms.waiting_jvm import waiting_jvm
from harness.paths import JAVA
from harness.warm_command import warm
from offheap.analysis.live.view import SiteNow
from offheap.inspect.over_time import jvm_counters
from offheap.jvm.listener.collection import collect
from offheap.launch import ending
from offheap.live.follower import Follower
from offheap.probe import control
from offheap.recording.capture.live_source import follow

SECONDS = "15s"  # a process needs stronger evidence of a leak in its first seconds


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("buffers")
    source = JAVA / "Buffers.java"
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-d", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@contextmanager
def buffers(java: Path, classes: Path, *flags: str) -> Iterator[int]:
    """A JVM that makes 400 direct buffers a second and has no need to collect; its PID."""
    options = ["-Xmx256m", "-Xms256m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=4g", *flags]
    process = subprocess.Popen(
        [str(java), *options, "-cp", str(classes), "Buffers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate(timeout=30)


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def suspects(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    """By blamed method: of suspects with the same one (HotSpot's sites may share), the largest allocator."""
    done = run(offheap("leaks", *arguments, "--all", "--json"))
    ranked = json.loads(done.stdout)["suspects"]
    ranked.sort(key=lambda suspect: suspect["allocated_bytes"]["estimate"])
    return {suspect["blamed"]["name"]: suspect for suspect in ranked}


@pytest.mark.parametrize("version", [11, 25])
def test_an_attach_with_gc_accuses_only_what_survives(
    version: int, jre: Callable[[int], Path], classes: Path, tmp_path: Path, probe_library: Path
) -> None:
    output = tmp_path / "buffers.offheap"
    # The JVM collects on an outside request; this flag only concerns System.gc().
    with buffers(jre(version), classes, "-XX:+DisableExplicitGC") as pid:
        options = ["--duration", SECONDS, "--interval", "64KiB", "--gc", "-o", str(output)]
        run(offheap("attach", str(pid), *options))
    found = suspects(output, "--limit", "64GiB")
    kept, dropped = found["Buffers.keep"], found["Buffers.drop"]
    assert kept["verdict"] == "leak", kept
    assert not kept["waits_for_gc"]
    assert "survived a full collection" in kept["why"]
    assert dropped["verdict"] in ("steady", "freed"), dropped
    until = kept["seconds_to_limit"]
    # At most 6.4 MB a second, into 64 GiB.
    assert 64 * 2**30 / 8e6 < until["estimate"] < until["high"]
    assert dropped["seconds_to_limit"] is None


def test_a_live_file_is_judged_before_and_after_a_collection(
    jre: Callable[[int], Path], classes: Path, tmp_path: Path, probe_library: Path
) -> None:
    output = tmp_path / "buffers.offheap"
    with buffers(jre(17), classes) as pid:
        options = ["--duration", SECONDS, "--interval", "64KiB", "--keep", "-o", str(output)]
        run(offheap("attach", str(pid), *options))
        waiting = suspects(output)
        loaded = control.loaded(pid)
        assert loaded
        assert loaded.live_file
        after = suspects(loaded.live_file, "--gc")
        loaded.live_file.unlink()
    for method in ("Buffers.keep", "Buffers.drop"):
        assert waiting[method]["verdict"] == "growing", waiting[method]
        assert waiting[method]["waits_for_gc"]
        assert "a collection might still free it" in waiting[method]["why"]
    assert after["Buffers.drop"]["verdict"] in ("steady", "freed", "cannot tell yet")
    assert (
        after["Buffers.drop"]["live_bytes"]["estimate"]
        < waiting["Buffers.drop"]["live_bytes"]["estimate"] / 3
    )
    assert after["Buffers.keep"]["verdict"] in ("leak", "growing")
    assert not after["Buffers.keep"]["waits_for_gc"]


def test_whoever_watches_knows_whether_the_jvm_collected(
    jre: Callable[[int], Path], classes: Path, tmp_path: Path, probe_library: Path
) -> None:
    """Another follower does not know the collections, and reports a leak with a doubt."""
    with buffers(jre(21), classes) as pid:
        live_file = control.start(pid, "interval=65536").live_file
        with closing(follow(live_file, jvm_counters)) as source, closing(follow(live_file)) as blind:
            watches = Follower(source), Follower(blind)
            deadline = time.monotonic() + 90
            # On a machine with uneven load, the first verdict may differ.
            while True:
                for watch in watches:
                    watch.advance()
                known, doubted = map(_dropped, watches)
                if doubted and any(
                    row.suspect.waits_for_gc and "no collection ran" in row.suspect.why for row in known
                ):
                    break
                assert time.monotonic() < deadline, known
                time.sleep(0.5)
            seeing, other = known[0], doubted[0]
            assert seeing.suspect.verdict == "growing"
            assert "no collection ran that could have freed it" in seeing.suspect.why
            assert "no collection ran" not in other.suspect.why
            held = seeing.live_bytes
            collect(pid)
            watches[0].advance()
            assert _dropped(watches[0])[0].live_bytes < held / 3
        live_file.unlink()


def _dropped(watch: Follower) -> list[SiteNow]:
    """The sites of dropped buffers, the largest allocator first; empty until frames have names."""
    view = watch.view()
    rows = map(view.row, range(len(view.names.suspects)))
    found = [row for row in rows if any("Buffers.drop" in f.name for f in row.suspect.site.stack)]
    return sorted(found, key=lambda row: -row.allocated)


def test_gc_of_a_finished_recording_is_refused(tmp_path: Path) -> None:
    done = warm("leaks", tmp_path, "--gc")
    assert done.returncode == 2
    assert "attach --gc" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_jvm_that_ignores_the_request_has_not_collected(
    jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """Shenandoah obeys -XX:+DisableExplicitGC, the other collectors do not."""
    options = ("-XX:-UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC")
    with waiting_jvm(jre(17), waiting_classes, *options, "-XX:+DisableExplicitGC") as jvm:
        said: list[str] = []
        assert not ending.collect(jvm.pid, said.append)
        (line,) = said
        assert f"no collection: PID {jvm.pid} ignored the request" in line
        assert "-XX:+DisableExplicitGC" in line
    with waiting_jvm(jre(17), waiting_classes, *options) as jvm:
        assert ending.collect(jvm.pid, said.append)
    assert len(said) == 1
