"""`offheap live` and `attach --live` on real processes, and on bad targets."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import command_line
from harness.jvms import zoo as zoo_programs
from harness.jvms.waiting_jvm import waiting_jvm
from harness.screens.driven_app import Driven, drive
from harness.screens.terminal import Terminal
from harness.warm_command import warm
from offheap.analysis.live.view import View
from offheap.cli.live import owners_of
from offheap.live.follower import Follower
from offheap.probe import control
from offheap.probe.live_files import search
from offheap.recording.capture.live_source import FollowedDirectory, follow
from offheap.report.tui.widgets import Pager


@pytest.fixture
def leaking_jvm(
    zoo: zoo_programs.Zoo, jre: Callable[[int], Path], probe_library: Path, tmp_path: Path
) -> Iterator[zoo_programs.Running]:
    command = zoo.command(zoo_programs.programs()["inflaters"], jre(17), 400)
    variables = {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"interval=65536,dir={tmp_path}"}
    with zoo_programs.Running(command, variables) as running:
        yield running


def test_a_real_jvm_is_watched_to_its_end(leaking_jvm: zoo_programs.Running, tmp_path: Path) -> None:
    (found,) = search.inside(tmp_path)
    with contextlib.closing(follow(found.path)) as source:
        watch = Follower(source)
        view = watch.advance()
        assert view

        async def steps(app: Driven) -> None:
            await app.see(lambda: app.rows[0].startswith(">!") and "Inflaters." in app.rows[0])
            assert "Inflater.<init>" in " ".join(app.head.split())
            await app.press("enter")
            await app.press("end")
            assert "leaks.Inflaters.handleUpload" in app.app.screen.query_one(Pager).text
            await app.press("escape", "o")
            pager = app.app.screen.query_one(Pager)
            await app.see(lambda: bool(re.search(r"([2-9]|\d\d) readings", pager.text)))
            lines = pager.text.splitlines()
            titles = {line[:25].strip() for line in lines if "iB" in line[25:35]}
            assert {"Java heap", "malloc", "RSS"} <= titles
            assert all(len(line) <= 80 for line in lines)
            os.kill(leaking_jvm.pid, signal.SIGKILL)
            await app.see(lambda: "no more readings" in app.keys)
            assert "Java heap" in pager.text
            await app.press("escape")
            await app.see(lambda: "process was killed" in app.head)
            # Its figures stay. Rows are sorted by certain growth, which a stalled machine may leave open.
            assert any("Inflaters." in row for row in app.rows), app.table.text

        drive(watch, view, steps, tmp_path, every=0.25, owners=owners_of(found.path, watch))
    assert owners_of(found.path, watch) is None, "its process has ended"


def test_a_recording_is_watched_while_it_is_written(
    zoo: zoo_programs.Zoo, jre: Callable[[int], Path], probe_library: Path, tmp_path: Path
) -> None:
    output = tmp_path / "zip.offheap"
    program = zoo.command(zoo_programs.programs()["inflaters"], jre(17), 400)
    recorder = command_line.offheap("run", "--interval", "64k", "--every", "300ms", "-o", output, "--")
    with zoo_programs.Running([*recorder, *program]) as running:
        running.truths(1)
        source = FollowedDirectory(output)
        watch = Follower(source)
        deadline = time.monotonic() + 60
        views: list[View] = []
        while len(views) < 2 or views[-1].now.time < views[0].now.time + 1:
            assert time.monotonic() < deadline
            source._due = 0.0
            view = watch.advance()
            views += [view] if view else []
            time.sleep(0.2)
        assert not views[-1].over
        running.exit()
    source._due = 0.0
    last = watch.advance()
    assert last
    assert last.over
    assert last.info.ended == "exited"
    assert any("Inflater" in frame.name for frame in last.names.suspects[0].site.stack)
    assert watch.advance() is None


@pytest.mark.usefixtures("probe_library")
def test_attach_watches_and_leaves_the_jvm_clean(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        pid = str(jvm.pid)
        with Terminal(["live", pid]) as refused:
            assert refused.process.wait(60) == 2
            time.sleep(0.2)
            assert f"no probe records PID {pid}" in refused.text
            assert "--attach" in refused.text
        for leave in ("q", signal.SIGTERM, signal.SIGHUP):
            with Terminal(["live", pid, "--attach", "--interval", "16k", "-o", str(tmp_path)]) as terminal:
                terminal.see("q quit")
                present = control.loaded(jvm.pid)
                assert present
                assert present.live_file
                if isinstance(leave, str):
                    terminal.press(leave)
                else:
                    terminal.process.send_signal(leave)
                assert terminal.process.wait(60) == 0, terminal.text
                said = f"the probe in PID {pid} is stopped"
                terminal.see(said)
                assert not terminal.rest(said), "the bindings of a library complained at exit"
            left = control.loaded(jvm.pid)
            assert left
            assert left.live_file is None
            assert not present.live_file.exists()
            assert jvm.answers()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["4711"], "needs a terminal"),
        (["4711", "--interval", "0"], "--interval must be greater than 0"),
        (["4711", "--exact"], "need --attach"),
        (["4711", "--budget", "1%"], "need --attach"),
        (["4711", "--every", "0"], "--every must be greater than 0"),
        (["4711", "-o", "/no/such/folder"], "is not a folder"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], said: str) -> None:
    outcome = warm("live", *arguments)
    assert outcome.returncode == 2
    assert said in outcome.stderr
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such.offheap"], "does not exist"),
        (["/etc"], "is not a recording"),
        (["/etc/passwd"], "is not a live file"),
        (["./x.offheap", "--attach"], "is a recording, not a process"),
        (["NoSuchMainClass"], "no JVM has"),
    ],
)
def test_bad_targets_are_one_line(arguments: list[str], said: str) -> None:
    with Terminal(["live", *arguments]) as terminal:
        assert terminal.process.wait(60) == 2
        terminal.see(said, 5)
        assert "Traceback" not in terminal.text
