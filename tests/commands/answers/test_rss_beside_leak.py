"""A leak while RSS does not grow as much: the report states the reason, from the recording's own figures."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import simulation
from harness.command_line import offheap
from harness.jvms.zoo import Running
from harness.paths import JAVA
from harness.screens.report_pages import LEAK, Open, plain
from harness.warm_command import warm
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.rss_beside_leak import rss_beside_leak
from offheap.analysis.leaks.ticket import ticket
from offheap.quantities import format_size
from offheap.recording.model import OwnersOverTime, Recording
from offheap.report.ticket import plain as plain_text
from offheap.report.ticket import ticket as ticket_report

MIB = 2**20


def leaking(kind: int = 1) -> Recording:
    """8.2 MiB in 30 s."""
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.inflater(LEAK), simulation.Leak(rate=40, size=7160), kind=kind)
    return process.record(exact=True)


def with_rss(recording: Recording, first: float, last: float, **owners: tuple[float, float]) -> Recording:
    """RSS and its owners in MiB, at the start and at the end."""
    process = recording.process.copy()
    process["rss_bytes"] = (np.linspace(first, last, len(process)) * MIB).astype(np.uint64)
    names = [name.replace("_", "-") for name in owners]
    held = np.array(list(owners.values())).reshape(len(names), 2).T * MIB
    over = OwnersOverTime(np.array([1.0, 30.0]), names, held, held.sum(axis=1)) if names else recording.owners
    return dataclasses.replace(recording, process=process, owners=over)


def note(recording: Recording) -> str:
    return rss_beside_leak(recording, [one for one in ranking(recording) if one.verdict == "leak"])


def test_nothing_is_said_where_rss_grew_with_the_leak_or_is_not_known() -> None:
    assert not note(with_rss(leaking(), 100, 108))
    assert not note(with_rss(leaking(), 0, 0))
    assert not rss_beside_leak(with_rss(leaking(), 100, 90), [])


def test_an_owner_that_shrank_is_named() -> None:
    recording = with_rss(leaking(), 100, 97, java_heap=(60, 50), malloc=(20, 28), code_cache=(20, 19.9))
    kept = format_size(float(recording.live["size"].sum()))
    assert note(recording) == (
        "RSS fell by 3.0 MiB in the same time, from 100 MiB to 97.0 MiB: Java heap shrank by 10.0 MiB, and "
        f"malloc's pages grew by 8.0 MiB. The verdict holds all the same: it counts blocks, of which {kept} "
        "were allocated while this was recorded and not freed"
    )


def test_blocks_in_pages_that_were_there_before_are_told_of() -> None:
    text = note(with_rss(leaking(), 100, 101, java_heap=(60, 60), malloc=(20, 21), malloc_free=(20, 15)))
    assert "RSS rose by only 1.0 MiB" in text
    assert "free, kept by malloc shrank by 5.0 MiB" in text
    assert "malloc's pages grew by only 1.0 MiB: blocks lie where others were freed" in text
    assert "RSS stayed at 100 MiB" in note(with_rss(leaking(), 100, 100, malloc=(20, 20)))


def test_mappings_count_where_they_are_touched_and_missing_owners_are_said_to_be_missing() -> None:
    assert "a mapping counts in RSS only where it is touched" in note(
        with_rss(leaking(kind=2), 100, 100, java_heap=(60, 60))
    )
    assert "who holds RSS was not recorded" in note(with_rss(leaking(), 100, 97))


def test_the_page_says_why_it_leaks_beside_an_rss_that_fell(open_report: Open) -> None:
    recording = with_rss(leaking(), 100, 97, java_heap=(60, 50), malloc=(20, 28))
    page = open_report(recording)
    assert page.inner_text("#answer h1") == "Yes, it leaks native memory."
    assert plain(page.inner_text("#rss-note")) == f"{note(recording)}."
    assert "−3.0 MiB" in plain(page.inner_text(".figures"))
    assert open_report(with_rss(leaking(), 100, 108)).locator("#rss-note").count() == 0


def test_a_ticket_says_it_too() -> None:
    recording = with_rss(leaking(), 100, 97, java_heap=(60, 50), malloc=(20, 28))
    page = plain_text.write(ticket_report.document(ticket(recording, ranking(recording))))
    assert f"{note(recording)}." in " ".join(page.split())


def test_malloc_that_gave_back_more_than_leaked_is_named_once() -> None:
    text = note(with_rss(leaking(), 300, 150, java_heap=(60, 60), malloc=(220, 70)))
    assert (
        "RSS fell by 150 MiB in the same time, from 300 MiB to 150 MiB: malloc's pages shrank by 150 MiB"
        in text
    )
    assert "since other blocks were freed and given back. The verdict holds all the same" in text
    assert "did not grow" not in text


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gives-back")
    source = JAVA / "GivesBack.java"
    # No --release: no release's interface contains jdk.unsupported.
    command = [str(jdk / "bin" / "javac"), "-nowarn", "-source", "11", "-target", "11", "-d", str(folder)]
    subprocess.run([*command, str(source)], check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize(
    ("what", "reason"), [("malloc", "malloc's pages shrank by "), ("heap", "Java heap shrank by ")]
)
def test_a_real_leak_beside_an_rss_that_falls(
    what: str, reason: str, classes: Path, jre: Callable[[int], Path], probe_library: Path, tmp_path: Path
) -> None:
    """400 KB/s leak while 8 MB/s are given back: every command reports the leak and why RSS fell."""
    heap = ("-XX:+UseSerialGC", "-Xms16m", "-Xmx512m", "-XX:MinHeapFreeRatio=5", "-XX:MaxHeapFreeRatio=10")
    command = [str(jre(17)), *heap, "-cp", str(classes), "GivesBack", what, "8", "25"]
    path = tmp_path / f"{what}.offheap"

    def said(*arguments: str) -> str:
        done = warm(*arguments)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def told(*arguments: str) -> Any:
        return json.loads(said(*arguments, "--json"))

    with Running(command) as running:
        options = ("--interval", "64KiB", "--duration", "28s", "-o", str(path))
        attach = offheap("attach", str(running.pid), *options)
        done = subprocess.run(attach, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
    leaks = told("leaks", str(path))
    assert leaks["suspects"][0]["verdict"] == "leak", leaks["answer"]
    assert leaks["suspects"][0]["blamed"]["name"] == "GivesBack.keep"
    assert leaks["rss_note"].startswith("RSS fell by ")
    assert reason in leaks["rss_note"]
    assert "The verdict holds all the same" in leaks["rss_note"]
    for people in (("leaks", str(path)), ("report", str(path), "--format", "txt", "-o", "-")):
        assert f"{leaks['rss_note']}." in " ".join(said(*people).split()), people
    where = told("where", str(path))
    assert where["watch"]["rss_bytes"][-1] < where["watch"]["rss_bytes"][0] - 50 * MIB
    assert where["verdict"]["kind"] == "native-malloc"
    assert "GivesBack.keep" in where["verdict"]["why"]
    assert told("check", str(path))["outcome"] == "failed"
