"""The benchmarks run, and report a missing peer; these tests do not judge the measurements.

Each runs in its short form; the seed chooses one of those that take half a minute or more.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness import needs
from harness.jvms.java_homes import java, jdk_homes
from harness.paths import ROOT
from harness.peers import maven, variants
from harness.plugins.rotation import one_of


def bench(name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=170, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def test_64_threads_hide_no_leak_and_invent_none() -> None:
    rows = re.findall(
        r"^\| (offheap [^|]+) \| ([\d,]+) \| ([\d.]+) \| (\d+) \|",
        bench("accuracy.known_leak", "--only", "offheap"),
        re.M,
    )
    found = {name: (blocks, mebibytes, false) for name, blocks, mebibytes, false in rows}
    assert found.keys() == {"offheap 512 KiB", "offheap exact"}
    assert found["offheap exact"] == ("1,000", "3.91", "0")
    assert found["offheap 512 KiB"][2] == "0", "a sampled block that was freed is not live"


def test_the_start_of_a_command_is_paired_with_python() -> None:
    rows = re.findall(r"^\| `([^|]+)` \| ([\d.,]+) \(", bench("reading.start_up"), re.M)
    found = {name: float(figure) for name, figure in rows}
    assert 0 < found["python -c pass"] < found["offheap --help"]


def test_each_large_import_has_its_figures() -> None:
    output = bench("reading.large_imports")
    rows = re.findall(r"^\| (\w+) \| ([\d,]+) \w+ \| (.+) \|$", output, re.M)
    assert {name: int(count.replace(",", "")) for name, count, _ in rows} == {
        "mtrace": 50_000,
        "heaptrack": 200_000,
        "jfr": 200_000,
        "jemalloc": 1000,
        "collapsed": 1000,
    }
    for name, _, cells in rows:
        size, reader, *command, _, _ = cells.split(" | ")
        seconds, cpu, rss = (float(cell.split()[0].replace(",", "")) for cell in command)
        assert float(size.split()[0]) >= 0, name
        assert 0 <= float(reader.split()[0]) < cpu, "the command does more than read"
        assert seconds > 0, name
        assert rss > 10, "an interpreter and its modules take more megabytes"


def memory_and_files() -> None:
    # The output of the running benchmark comes before the table.
    _, _, output = bench("cost.footprint", "--only", "offheap").partition(
        "`python -m benchmarks.cost.footprint"
    )
    figure = r"([\d.]+)"
    held = re.findall(
        rf"^\| (offheap [^|]+) \| \+{figure} MiB \| \+{figure} MiB \| {figure} bytes", output, re.M
    )
    assert [name for name, *_ in held] == ["offheap 512 KiB", "offheap exact"]
    assert all(float(one) > 0 for _, *figures in held for one in figures)
    sizes = re.search(rf"a recording of {figure} MiB, at most {figure} MiB", output)
    assert sizes
    assert 0 < float(sizes[1]) < 1


def requests_of_a_server() -> None:
    need("wrk", "mvn")
    output = bench("cost.application")
    if "*absent*" in output:
        needs.skip(output.splitlines()[-1], needs.INTERNET)
    rows = re.findall(r"^\| (offheap [^|]+) \| ([\d,]+) \| [^|]+ \| ([\d.]+) \|", output, re.M)
    assert [name for name, *_ in rows] == ["offheap 512 KiB", "offheap budget 1%"]
    for name, requests, samples in rows:
        assert int(requests.replace(",", "")) > 0, name
        # A Deflater of 268 KB a request: half of the requests give a sample at 512 KiB.
        assert float(samples) > 0.1, name


def profile_of_a_server() -> None:
    need("wrk", "mvn", "perf")
    output = bench("cost.application_profile")
    assert "no profile" not in output
    cells = re.findall(r"^\| the probe \| (\S+) \| (\S+) \| (\S+) \|", output, re.M)
    assert len(cells) == 1
    nothing, sampled, budget = (int(cell.replace(",", "")) for cell in cells[0])
    assert nothing == 0
    assert min(sampled, budget) > 0


def profile_of_malloc() -> None:
    need("perf")
    output = bench("cost.pair_profile")
    assert "no profile" not in output
    rows = re.findall(r"^\| the probe \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", output, re.M)
    assert len(rows) == 3
    for nothing, *under_offheap, exact in rows:
        assert nothing == "0"
        assert all(float(figure.replace(",", "")) > 0 for figure in under_offheap)
        assert float(exact.replace(",", "")) > 10


def profile_of_churn() -> None:
    need("perf")
    output = bench("cost.churn_profile")
    assert "no profile" not in output
    titles = re.findall(r"^\| ([^|]+, JDK \d+) \| nothing", output, re.M)
    assert titles == [
        f"{name}, JDK 17" for name in ("zip create/end", "Unsafe pair", "zip 8 KB blocks", "direct buffers")
    ]
    rows = re.findall(r"^\| the probe \| (.+) \|$", output, re.M)
    assert len(rows) == 4
    for row in rows:
        nothing, *_, exact = (float(cell.replace(",", "")) for cell in row.split(" | "))
        assert nothing == 0
        assert exact > 10


def spent_under_the_budget() -> None:
    output = bench("cost.budget")
    assert len(re.findall(r"^\| [\d.]+% \| .* \| \d of 5 \| \d of 5 \|$", output, re.M)) == 3
    spent = re.findall(r"^\| JDK \d+ \|.*\| ([\d.]+)% \| [^|]+ \|$", output, re.M)
    assert spent
    assert all(0 < float(share) < 5 for share in spent)


def intervals_of_java_objects() -> None:
    output = bench("accuracy.java_heap")
    rows = re.findall(r"^\| (\S+) \| 2 \|(.+)\|$", output, re.M)
    assert [collector for collector, _ in rows] == ["Serial", "G1", "ZGC"]
    for collector, cells in rows:
        ratios = [float(ratio) for ratio in re.findall(r"\(([\d.]+)\)", cells)]
        assert len(ratios) == 4, collector
        assert all(0.5 < ratio < 2 for ratio in ratios), (collector, ratios)


def cost_of_java_objects() -> None:
    output = bench("cost.java_heap", "--only", "offheap")
    rows = re.findall(r"^\| (nothing|offheap[^|]*) \| ([\d,]+) \|", output, re.M)
    names = ["nothing", "offheap, native memory only", "offheap --java-heap"]
    assert [name for name, _ in rows] == [*names, "offheap --java-heap-interval 512KiB"]
    assert all(int(figure.replace(",", "")) > 0 for _, figure in rows)


def need(*programs: str) -> None:
    for program in programs:
        needs.program(program)


def every_pair() -> None:
    rows = re.findall(
        r"^\| (nothing|offheap [^|]+) \|(.+)\|$", bench("cost.malloc_pair", "--only", "offheap"), re.M
    )
    offheap = {"offheap idle", "offheap 512 KiB", "offheap budget 1%", "offheap exact"}
    assert {name for name, _ in rows} == {"nothing", *offheap}
    for name, cells in rows:
        figures = [float(cell.split()[0].replace(",", "")) for cell in cells.split("|")]
        assert all(figure > 0 for figure in figures), name


def every_churn() -> None:
    output = bench("cost.jvm_churn", "--only", "offheap 512")
    rows = re.findall(r"^\| ([^|]+), JDK 25 \| ([\d,.]+) \(.*?\) \| ([\d,.]+) \(", output, re.M)
    assert [title for title, *_ in rows] == [
        "zip create/end",
        "Unsafe pair",
        "zip 8 KB blocks",
        "direct buffers",
    ]
    assert all(float(figure.replace(",", "")) > 0 for _, *figures in rows for figure in figures)


def builds_of_the_probe() -> None:
    rows = re.findall(r"^\| (offheap [^|]+) \|(.+)\|$", bench("cost.probe_builds"), re.M)
    assert [name for name, _ in rows] == [
        "offheap 512 KiB",
        "offheap 512 KiB without tracepoints",
        "offheap 512 KiB that shares a line",
        "offheap exact",
        "offheap exact without tracepoints",
    ]
    assert all(float(cell.split()[0]) > 0 for _, cells in rows for cell in cells.split("|"))


def cost_of_the_recorder() -> None:
    rows = re.findall(r"^\| leaks Inflaters \|(.+)\|$", bench("cost.recorder_cost"), re.M)
    assert len(rows) == 1
    figures = [float(cell.split()[0].rstrip("%")) for cell in rows[0].split("|")]
    assert len(figures) == 7
    assert all(figure > 0 for figure in figures)


@needs.unless(bool(jdk_homes()), "a JDK 11 or newer", needs.JDK)
@needs.unless(java(17).exists(), "a JRE 17 in .jres", needs.JRES)
@needs.unless(java(25).exists(), "a JRE 25 in .jres", needs.JRES)
@pytest.mark.parametrize(
    "measured",
    one_of(
        [
            memory_and_files,
            requests_of_a_server,
            profile_of_a_server,
            profile_of_malloc,
            profile_of_churn,
            spent_under_the_budget,
            intervals_of_java_objects,
            cost_of_java_objects,
            cost_of_the_recorder,
            every_pair,
            every_churn,
            builds_of_the_probe,
        ]
    ),
    ids=lambda measured: measured.__name__,
)
def test_by_turns(measured: Callable[[], None]) -> None:
    measured()


def program(name: str) -> ModuleType:
    """A benchmark in this process, so that a test can hide its peers."""
    return importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def no_peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without peers and without a way to fetch them."""
    monkeypatch.setattr(variants, "DEBIAN_LIBRARIES", tmp_path)
    monkeypatch.setattr(maven, "fetch", lambda artifact, folder: tmp_path / "absent.jar")
    monkeypatch.setattr(variants, "ASYNC_PROFILER", "0")  # hides the downloads of other runs, too


@needs.unless(bool(jdk_homes()), "a JDK 11 or newer", needs.JDK)
@needs.unless(java(25).exists(), "a JRE 25 in .jres", needs.JRES)
@pytest.mark.parametrize(
    ("name", "peer", "row", "count"),
    [
        ("cost.malloc_pair", "heaptrack", r"^\| heaptrack( \| absent)+ \|$", 3),
        ("cost.malloc_pair", "async-profiler", r"^\| async-profiler every( \| absent)+ \|$", 3),
        ("cost.jvm_churn", "async-profiler", r"^\| [^|]+, JDK 25 \| [^|]+ \| absent \| absent \|$", 4),
        ("accuracy.known_leak", "async-profiler", r"^\| async-profiler \S+( KiB)? \| absent \|", 2),
        ("accuracy.known_leak", "jemalloc", r"^\| jemalloc prof 512 KiB \| absent \|", 1),
        ("cost.footprint", "HEAPPROFILE", r"^\| gperftools HEAPPROFILE \| absent \|", 2),
    ],
)
def test_a_peer_that_is_not_there_is_absent(
    name: str, peer: str, row: str, count: int, no_peers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program(name).main(["--quick", "--only", peer]) == 0
    # footprint.py shows rows while it runs, too.
    printed = capsys.readouterr().out.rpartition(f"`python -m benchmarks.{name} ")[2]
    assert "failed" not in printed
    assert len(re.findall(row, printed, re.M)) == count, printed


@pytest.mark.usefixtures("no_peers")
def test_a_server_without_a_peer_says_so() -> None:
    application = program("cost.application")
    stretch = application.Stretch(100.0)
    measured = [{application.BASE: stretch, **dict.fromkeys(application.OFFHEAP, stretch)}] * 2
    assert "| async-profiler 512 KiB | absent |  |  |  |  |" in application.table(measured)
