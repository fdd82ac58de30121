"""A process whose names all try to steer terminals, pages, spreadsheets and parsers.

One real JVM, in every command and format: its folder, main class, method, source file, threads, arguments, a
mapped file, its process and its published Java version are hostile, as far as each allows.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from prometheus_client.parser import text_string_to_metric_families

import offheap
from harness.hostile.names import (
    ARGUMENT,
    CLASS,
    FILE,
    FOLDER,
    MAPPED,
    METHOD,
    ON_PAGE,
    PARKED,
    PROCESS,
    SHOWN,
    SITE,
    TAGS,
    THREAD,
    VERSION,
    renamed,
    steering,
)
from harness.jvms.waiting_jvm import read_line, remove_live_files
from harness.paths import JAVA
from harness.screens.report_pages import Open
from harness.screens.terminal import OFFHEAP, Terminal
from harness.waiting import wait_until
from harness.warm_command import warm
from offheap.cli.main import COMMANDS

SOURCE = JAVA / "Hostile.java"
SECONDS = 8


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from strings(key)
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


@dataclass(frozen=True)
class Said:
    """The output of a command, with undecoded bytes."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Case:
    """A command; {pid} and {recording} stand for their values.

    shows     names that it must show: in text as a reader may see them, in JSON unchanged
    statuses  exit statuses that are allowed
    allowed   control characters that it may write
    """

    command: str
    shows: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (0,)
    allowed: str = ""

    @property
    def json(self) -> bool:
        return " --json" in self.command or "json -o -" in self.command


@dataclass
class Neighbour:
    """The JVM, and the folder of all its files."""

    pid: int
    folder: Path
    said: dict[str, Said] = field(default_factory=dict)

    @property
    def recording(self) -> Path:
        return self.folder / "rec\x1b[2J\u202e*[a].offheap"

    def run(self, command: str) -> Said:
        places = {"{pid}": str(self.pid), "{recording}": str(self.recording)}
        words = [places.get(word, word) for word in command.split()]
        # Tables fold long names, which a search would not find.
        done = warm(*words, cwd=self.folder, env={**os.environ, "COLUMNS": "800"})
        said = Said(done.returncode, done.stdout, done.stderr)
        self.said[command] = said
        return said


# While it runs and is being recorded, in any order.
LIVE = (
    Case("ps", (CLASS,)),
    Case("ps --json", (CLASS,)),
    Case("clean --dry-run"),
    Case("clean --dry-run --json"),
    Case("where {pid} --full --tree", (CLASS, MAPPED, PARKED, VERSION)),
    Case("where {pid} --json", (CLASS, MAPPED, PARKED, VERSION)),
    Case("where --all --no-attach", (CLASS,)),
    Case("where --all --no-attach --json", (CLASS,)),
    Case("where {pid} --watch 1500ms --every 500ms --full", (CLASS, MAPPED)),
    Case("where {pid} --histogram 500ms", (CLASS,)),
    Case("nmt {pid} --detail", allowed="\t"),  # the JVM prints tabs
    Case("nmt {pid} -o base.json"),
    Case("nmt {pid} --json", (CLASS,)),
    Case("trim {pid}", (CLASS,)),
    Case("trim {pid} --json"),
    Case("mtrace {pid}"),
    Case("jemalloc dump {pid}", statuses=(2,)),
)
# After the first recording, one after the other.
LATER = (
    Case("nmt {pid} --diff base.json"),
    Case("attach {pid} --duration 300ms --keep --every 100ms -o second\x1b[2J.offheap"),
    Case("attach {pid} --duration 300ms --keep --json -o third\x1b[2J.offheap"),
    Case("detach {pid}"),
    Case("where no-such\x1b[2J", statuses=(2,)),
)
RECORDED = (
    Case("leaks {recording} --all --full --threads", (SITE, FILE, THREAD, TAGS)),
    Case("leaks {recording} --json", (SITE, FILE, THREAD)),
    Case("summary {recording} --full", (SITE, FILE)),
    Case("summary {recording} --json", (SITE,)),
    Case("tree {recording} --full", (SITE, FILE)),
    Case("tree {recording} --json", (SITE,)),
    Case("stats {recording}", (CLASS, ARGUMENT)),
    Case("stats {recording} --json", (ARGUMENT,)),
    Case("diff {recording} --from 3s --all --full", (SITE, FILE)),
    Case("diff {recording} --from 3s --json", (SITE,)),
    Case("diff {recording} --from 3s -o diff.html"),
    # A leak, or growing: those seconds may have no collection.
    Case("check {recording} --junit check.xml --github --ignore evil\x1b[2J.supp", (SITE,), (1, 3)),
    Case("check {recording} --json --github", (SITE,), (1, 3)),
    Case("report {recording}"),
    Case("report {recording} --json -o page.html"),
    Case("report {recording} --format md -o -", (SITE,)),
    Case("report {recording} --format txt -o -", (SITE,)),
    Case("report {recording} --format json -o -", (SITE,)),
    Case("nmt {recording} --detail", (SITE,)),
    Case("export {recording} --format json -o -", (SITE,)),
    Case("export {recording} --format collapsed -o -", (SITE,)),
    Case("push {recording} --otlp http://localhost:9", statuses=(2,)),
    Case("import {recording}/meta.json", statuses=(2,)),
    Case("symbolize {recording} -o named\x1b[2J.offheap"),
    Case("anonymize {recording} -o hidden\x1b[2J.offheap"),
    Case("nmt {recording} --json", (SITE,)),
    Case("where {recording}", (CLASS,)),
    Case("where {recording} --json", (CLASS,)),
)
# These print offheap's own texts and no name of a process.
NAMELESS = {"demo", "env", "completion"}


@pytest.fixture(scope="module")
def neighbour(
    jdk: Path, jre: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Neighbour]:
    folder = tmp_path_factory.mktemp("hostile") / FOLDER
    folder.mkdir()
    subprocess.run(
        [str(jdk / "bin" / "javac"), "--release", "11", "-d", str(folder), str(SOURCE)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    plain = folder / "Hostile.class"
    names = {"Hostile": CLASS, "leak": METHOD, "Hostile.java": FILE}
    (folder / f"{CLASS}.class").write_bytes(renamed(plain.read_bytes(), names))
    plain.unlink()
    (folder / MAPPED).write_bytes(b"x" * (1 << 20))
    (folder / "evil\x1b[2J.supp").write_text("leak:nothing\x1b[2J\u202e\n")
    options = ["-Xmx64m", "-XX:MaxDirectMemorySize=1g", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=detail"]
    arguments = [str(folder / MAPPED), PROCESS, VERSION, PARKED, THREAD, TAGS]
    process = subprocess.Popen(
        [str(jre(21)), *options, ARGUMENT, "-cp", str(folder), CLASS, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    try:
        assert read_line(process, 60.0) == b"ready\n"
        yield Neighbour(process.pid, folder)
    finally:
        process.kill()
        process.communicate()
        Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)
        remove_live_files(process.pid)


@pytest.fixture(scope="module")
def said(neighbour: Neighbour, probe_library: Path) -> dict[str, Said]:
    """The output of every command, by command: most take a second, and two CPUs run several at once."""
    assert probe_library
    attach = f"attach {{pid}} --exact --every 300ms --duration {SECONDS}s -o {{recording}}"
    with ThreadPoolExecutor(3) as pool:
        recording = pool.submit(neighbour.run, attach)
        list(pool.map(neighbour.run, [case.command for case in LIVE]))
        scrape(neighbour)
        assert recording.result().status == 0, recording.result().err
        for case in LATER:
            neighbour.run(case.command)
        list(pool.map(neighbour.run, [case.command for case in RECORDED]))
    return neighbour.said


def scrape(neighbour: Neighbour) -> None:
    """The OpenMetrics that Prometheus gets, as the output of one more command."""
    server = subprocess.Popen(
        [*OFFHEAP, "where", str(neighbour.pid), "--no-attach", "--serve", ":0"], stdout=subprocess.PIPE
    )
    try:
        found = re.search(r"http://\S+", read_line(server, 60).decode())
        assert found
        with urllib.request.urlopen(found[0], timeout=60) as answer:
            neighbour.said["scrape"] = Said(0, answer.read().decode(), "")
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


@pytest.mark.parametrize("case", [*LIVE, *LATER, *RECORDED], ids=lambda case: ascii(case.command)[1:-1])
def test_no_command_lets_a_name_steer(case: Case, said: dict[str, Said]) -> None:
    one = said[case.command]
    assert one.status in case.statuses, one.err
    assert set(steering(one.out + one.err)) <= set(case.allowed)
    if case.json:
        found = set(strings(json.loads(one.out)))
        missing = [name for name in case.shows if not any(name in text for text in found)]
    else:
        # Without blanks: lines are folded.
        told = "".join(one.out.split())
        missing = [name for name in case.shows if "".join(SHOWN[name].split()) not in told]
    assert not missing, one.out


def test_every_command_is_asked() -> None:
    asked = {case.command.split()[0] for case in (*LIVE, *LATER, *RECORDED)}
    assert asked | NAMELESS | {"live", "run"} == COMMANDS.keys()


def test_a_scrape_is_read_by_prometheus(neighbour: Neighbour, said: dict[str, Said]) -> None:
    text = said["scrape"].out
    assert steering(text) == ""
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    (up,) = families["offheap_up"]
    assert (up.labels, up.value) == ({"pid": str(neighbour.pid), "name": SHOWN[CLASS]}, 1.0)


def test_the_process_does_not_say_who_it_belongs_to(neighbour: Neighbour, said: dict[str, Said]) -> None:
    (jvm,) = (jvm for jvm in json.loads(said["ps --json"].out)["jvms"] if jvm["pid"] == neighbour.pid)
    assert Path(f"/proc/{neighbour.pid}/comm").read_bytes() == f"{PROCESS}\n".encode()
    assert jvm["user"] != "4711"
    assert jvm["main"] == CLASS


def test_a_mapped_file_hides_no_other(said: dict[str, Said]) -> None:
    found = json.loads(said["where {pid} --json"].out)
    owners = sum(owner["bytes"] for owner in found["owners"]) + found["unattributed_bytes"]
    assert owners == found["rss_bytes"] > 20 << 20
    held = {part["name"]: part["bytes"] for owner in found["owners"] for part in owner["detail"]}
    assert [size for name, size in held.items() if name.endswith(MAPPED)] == [1 << 20]


def test_xml_parses_and_has_the_name(neighbour: Neighbour, said: dict[str, Said]) -> None:
    text = (neighbour.folder / "check.xml").read_bytes().decode()
    assert said
    assert steering(text) == ""
    assert SHOWN[SITE] in "".join(ElementTree.fromstring(text).itertext())


def test_annotations_are_commands_of_ours(said: dict[str, Said]) -> None:
    (command,) = (case.command for case in RECORDED if "--junit" in case.command)
    lines = [line for line in said[command].out.split("\n") if "::" in line]
    assert lines
    assert all(line.startswith(("::error ", "::warning ")) for line in lines)


def test_markdown_has_no_markup_of_theirs(said: dict[str, Said]) -> None:
    text = said["report {recording} --format md -o -"].out
    fenced = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert fenced != text
    prose = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", fenced)
    assert not re.search(r"(?<!\\)<", prose)


@pytest.mark.parametrize("page", ["page.html", "diff.html"])
def test_a_page_shows_names_as_text(
    page: str, neighbour: Neighbour, said: dict[str, Said], open_report: Open
) -> None:
    assert said
    path = neighbour.folder / page
    assert steering(path.read_bytes().decode().replace("\t", "")) == ""
    # The fixture finds a page by its address, which differs for a folder with such a name.
    plain = neighbour.folder.parent / page
    plain.write_bytes(path.read_bytes())
    shown = open_report(plain)
    if page == "page.html" and shown.locator("#more").is_visible():
        shown.click("#more")
    for canvas in shown.locator("canvas").all():
        if canvas.is_visible():
            canvas.hover(force=True)  # uPlot has its own element above
    text = shown.locator("html").evaluate("html => html.querySelector('main').textContent")
    assert ON_PAGE[SITE] in text
    assert ON_PAGE[FILE] in text
    assert page == "diff.html" or ON_PAGE[CLASS] in shown.title()
    assert steering(text + shown.title()) == ""
    assert shown.evaluate("typeof window.hacked") == "undefined"
    assert shown.locator("main img, main script").count() == 0


def test_the_page_offers_no_name_that_cannot_be_typed(
    neighbour: Neighbour, said: dict[str, Said], open_report: Open
) -> None:
    assert said
    plain = neighbour.folder.parent / "threads.html"
    plain.write_bytes((neighbour.folder / "page.html").read_bytes())
    page = open_report(plain)
    offered = page.eval_on_selector_all("option", "options => options.map(option => option.value)")
    assert "C2 CompilerThre" in offered
    assert [name for name in offered if steering(name)] == []


def test_the_live_view_and_what_it_writes(
    neighbour: Neighbour, said: dict[str, Said], tmp_path: Path
) -> None:
    assert said
    folder = tmp_path / FOLDER
    folder.mkdir()
    with Terminal(["live", str(neighbour.recording), "-o", str(folder)]) as terminal:
        terminal.see("q quit")
        terminal.see("=Evil")
        terminal.press("e")
        terminal.see("wrote ")
        terminal.press("\r")
        terminal.see("threads    ")
        terminal.press("e")
        wait_until(lambda: any(folder.glob("*.txt")))
        terminal.press("o")
        terminal.press("q")
        terminal.press("q")
        terminal.process.wait(60)
        raw = terminal.raw.replace("\x1b]22;default\x07", "")  # Textual's own: the mouse pointer's shape
    assert not re.search(r"\x1b[]c]|[\x07\x80-\x9f\u2028\u2066]|\u202e|\x1b\[2J.*evil", raw)
    (table,) = folder.glob("*.csv")
    (stack,) = folder.glob("*.txt")
    for file in (table, stack):
        assert steering(file.read_bytes().decode()) == ""
    assert SHOWN[SITE] in stack.read_text()
    assert SHOWN[THREAD] in stack.read_text()
    with open(table, newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert rows[0]["site"] == f"'{SHOWN[SITE]}"
    assert not [cell for row in rows for cell in row.values() if is_formula(cell)]


def is_formula(cell: str) -> bool:
    with contextlib.suppress(ValueError):
        return float(cell) != float(cell)
    return cell.lstrip()[:1] in tuple("=+-@")


def test_a_notebook_shows_names_as_text(neighbour: Neighbour, said: dict[str, Said]) -> None:
    assert said
    opened = offheap.open(str(neighbour.recording))
    assert steering(repr(opened)) == ""
    assert "=Evil" in repr(opened)
    page = opened._repr_html_()
    assert steering(page) == ""
    assert "<img" not in page
    assert "<script" not in page
    assert opened.suspects[0].blamed.name == SITE


def test_a_program_of_such_a_name(probe_library: Path, tmp_path: Path) -> None:
    assert probe_library
    program = tmp_path / "run\x1b[2J\u202e"
    program.symlink_to("/bin/sleep")
    done = subprocess.run(
        [*OFFHEAP, "run", "--", program, "0.3"], cwd=tmp_path, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = (done.stdout + done.stderr).decode()
    assert steering(told) == ""
    assert "recorded run\\x1b[2J\\u202e-" in told
