"""A real recording of a known program in the formats of heaptrack, jeprof and the Firefox Profiler."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import needs
from harness.recordings.two_keepers import TRUTH, A, B, Stack, live, live_of, ran
from offheap.formats.exported.content.samples import VALUES, samples
from offheap.formats.exported.formats import FORMATS
from offheap.formats.imported.events import heaptrack
from offheap.formats.imported.formats import read
from offheap.formats.imported.recorded import write
from offheap.recording import load
from offheap.recording.model import Recording

FIREFOX = "npm install -g @firefox-devtools/profiler-cli, with Node 24"
SESSION = "--session", "test"


# ---- heaptrack, jemalloc ---------------------------------------------------------------------------


def test_heaptrack_print_has_the_totals(exported: dict[str, Path], recording: Recording) -> None:
    heaptrack_print = needs.program("heaptrack_print")
    said = ran(heaptrack_print, exported["heaptrack"])
    of = samples(recording)
    assert f"calls to allocation functions: {of.values['alloc_objects'].sum()} " in said
    names = re.sub(r"\n +(?:in|at) .*", "", said)
    assert "100.00K consumed over 100 calls from:\n    block\n    keep\n    keeper_a\n" in names
    leaked = of.values["inuse_space"].sum() / 1000
    assert f"total memory leaked: {leaked:.2f}K" in said


def test_heaptrack_comes_back_with_every_stack_and_byte(
    exported: dict[str, Path], recording: Recording
) -> None:
    profile = heaptrack.read([exported["heaptrack"]])
    assert live_of(profile) == live(recording)
    allocated = profile.series["allocated_blocks"].max()
    assert allocated == samples(recording).values["alloc_objects"].max() == 300


@pytest.mark.parametrize("name", ["jemalloc", "pprof"])
def test_totals_come_back_with_every_stack_and_byte(
    name: str, exported: dict[str, Path], recording: Recording
) -> None:
    profile = read([exported[name]], None, None, None)
    assert profile.format == name
    assert live_of(profile) == live(recording)
    of = samples(recording)
    for value, column in (("alloc_space", "allocated_bytes"), ("alloc_objects", "allocated_blocks")):
        back = [row[column] for row in {int(row["stack"]): row for row in profile.series}.values()]
        assert sum(back) == of.values[value].sum(), value  # type: ignore[index]


def test_pprof_of_an_import_is_the_first(exported: dict[str, Path], tmp_path: Path) -> None:
    write(read([exported["pprof"]], None, None, None), tmp_path / "back.offheap", "two.pb.gz")
    again = tmp_path / "again.pb.gz"
    again.write_bytes(FORMATS["pprof"].write(load(tmp_path / "back.offheap"), "both", "inuse_space"))
    first, second = (live_of(read([path], None, None, None)) for path in (exported["pprof"], again))
    assert first == second


def test_jeprof_scales_nothing(exported: dict[str, Path], recording: Recording) -> None:
    """Blocks of one byte stay 50, and blocks without a byte do not end it."""
    jeprof = needs.program("jeprof")
    for place, value in enumerate(VALUES):
        said = ran(jeprof, "--collapsed", f"--{value}", exported["jemalloc"])
        stacks = [(tuple(name.split(";")), int(number)) for name, number in map(_last, said.splitlines())]
        for name, truth in TRUTH.items():
            assert sum(number for names, number in stacks if name in names) == truth[place], (value, name)


def _last(line: str) -> tuple[str, str]:
    names, _, number = line.rpartition(" ")
    return names, number


# ---- Firefox ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def firefox_session(cli: str, path: Path, folder: dict[str, str]) -> Iterator[None]:
    """The daemon that answers profiler-cli, as our child: its `load` gives up after half a second."""
    environment = {**os.environ, **folder}
    command = [cli, "--daemon", str(path), *SESSION]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as daemon:
        try:
            deadline = time.monotonic() + 60
            while subprocess.run([cli, "status", *SESSION], capture_output=True, env=environment).returncode:
                assert time.monotonic() < deadline
                assert daemon.poll() is None
                time.sleep(0.1)
            yield
        finally:
            daemon.kill()


def test_the_firefox_profiler_adds_the_values_up(exported: dict[str, Path], tmp_path: Path) -> None:
    cli = needs.remedied_program("profiler-cli", FIREFOX)
    folder = {"PROFILER_CLI_SESSION_DIR": str(tmp_path)}
    with firefox_session(cli, exported["firefox"], folder):
        for place in range(len(VALUES)):
            command = cli, "thread", "samples", "--thread", f"t-{place}", "--json", *SESSION
            totals = {
                one["name"].split("!")[-1]: one["totalSamples"]
                for one in json.loads(ran(*command, **folder))["topFunctionsByTotal"]
            }
            for function in (A, B):
                assert totals[function] == TRUTH[function][place]


def test_firefoxs_tables_refer_to_one_another(exported: dict[str, Path], recording: Recording) -> None:
    document = json.loads(exported["firefox"].read_bytes())
    tables: dict[str, Any] = document["shared"]
    for table in (tables[name] for name in tables if name != "stringArray"):
        assert {len(column) for key, column in table.items() if key != "length"} == {table["length"]}
    strings, functions, frames = tables["stringArray"], tables["funcTable"], tables["frameTable"]
    stacks = tables["stackTable"]
    assert all(prefix is None or prefix < at for at, prefix in enumerate(stacks["prefix"]))
    names = [strings[functions["name"][frames["func"][frame]]] for frame in stacks["frame"]]

    def path(stack: int | None) -> Iterator[str]:
        while stack is not None:
            yield names[stack]
            stack = stacks["prefix"][stack]

    its = document["threads"][0]["samples"]
    found: Counter[Stack] = Counter()
    for stack, weight in zip(its["stack"], its["weight"], strict=True):
        found[tuple(reversed(list(path(stack))))] += weight
    assert found == live(recording)
    assert [thread["samples"]["weightType"] for thread in document["threads"]] == [
        *("bytes", "samples", "bytes", "samples")
    ]
    (library,) = (one for one in document["libs"] if one["name"] == "two_keepers")
    assert re.fullmatch("[0-9A-F]{32}0", library["breakpadId"])
    assert max(its["time"]) < document["meta"]["profilingEndTime"]
