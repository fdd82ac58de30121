"""A real recording of a known program in each format, read by the programs that the format is for."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData

from harness import needs
from harness.recordings.two_keepers import (
    THREADS,
    TRUTH,
    A,
    B,
    live,
    live_of,
    of_function,
    ran,
)
from offheap.formats.exported.content.samples import VALUES, samples
from offheap.formats.exported.formats import FORMATS
from offheap.formats.imported.samples import collapsed, pprof
from offheap.recording import load
from offheap.recording.model import Recording

NYTPROF = "/usr/share/perl5/Devel/NYTProf"  # where Debian's package has flamegraph.pl
PROFCHECK = "go install of profcheck, from a clone of github.com/open-telemetry/sig-profiling"


# ---- pprof -----------------------------------------------------------------------------------------


def test_the_values_are_the_programs(recording: Recording) -> None:
    of = samples(recording)
    columns = [of.values[value].tolist() for value in VALUES]
    found = of_function(
        (tuple(frame.name for frame in of.frames(place)), values)
        for place, values in enumerate(zip(*columns, strict=True))
    )
    assert found == TRUTH


def test_go_reads_values_threads_and_build_ids(exported: dict[str, Path]) -> None:
    go = needs.program("go", "go tool pprof")
    raw = ran(go, "tool", "pprof", "-raw", exported["pprof"])
    samples_, _, rest = raw.partition("\nLocations\n")
    locations, _, mappings = rest.partition("\nMappings\n")
    names: dict[str, list[str]] = {}
    number = ""
    for line in locations.splitlines():
        if found := re.match(r" +(\d+): 0x0 (?:M=\d+ )?(\S+)", line):
            number = found[1]
            names[number] = [found[2]]
        else:
            names[number].append(line.split()[0])
    assert ["block", "keep"] in names.values(), "the inlined function and its caller are one location"
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(\d+): ([\d ]+)\n(?: +(kind:.*))?", samples_, re.MULTILINE)
    stacks = [
        (tuple(name for place in row[4].split() for name in names[place]), tuple(map(int, row[:4])))
        for row in rows
    ]
    assert of_function(iter(stacks)) == TRUTH
    threads: Counter[str] = Counter()
    for row in rows:
        assert "kind:[malloc]" in row[5]
        if thread := re.search(r"thread:\[([^]]+)\]", row[5]):
            threads[thread[1]] += int(row[0])
    assert {name: threads[name] for name in THREADS} == THREADS
    assert re.search(r"two_keepers [0-9a-f]{8,} \[FN\]", mappings)
    assert "libc.so.6" in mappings


def test_go_lists_the_top_by_each_value(exported: dict[str, Path]) -> None:
    go = needs.program("go", "go tool pprof")
    for place, value in enumerate(VALUES):
        top = ran(go, "tool", "pprof", "-top", "-unit=B", f"-sample_index={value}", exported["pprof"])
        (cumulated,) = re.findall(r"(\d+)B? +\S+% +keeper_a\b", top)
        assert int(cumulated) == TRUTH[A][place], top


def test_pprof_comes_back_with_every_stack_and_byte(exported: dict[str, Path], recording: Recording) -> None:
    profile = pprof.read([exported["pprof"]])
    assert live_of(profile) == live(recording)
    inlined = [frame for frame in profile.frames if frame.inlined]
    assert "block" in {frame.name for frame in inlined}
    assert {frame.module for frame in inlined if frame.name == "block"} == {"two_keepers"}
    assert any(module.path.endswith("two_keepers") and module.build_id for module in profile.modules)


# ---- OpenTelemetry ---------------------------------------------------------------------------------


def test_profcheck_finds_no_fault(exported: dict[str, Path]) -> None:
    profcheck = needs.remedied_program("profcheck", PROFCHECK)
    said = ran(profcheck, "-check-dupes", "-check-orphans", exported["otlp"])
    assert "conformance checks passed" in said


def test_otlp_has_no_orphan_and_the_build_ids(exported: dict[str, Path]) -> None:
    """profcheck's rule for orphans, where profcheck is not: each entry is referred to."""
    data = ProfilesData.FromString(exported["otlp"].read_bytes())
    tables = data.dictionary
    strings = list(tables.string_table)
    (scope,) = data.resource_profiles[0].scope_profiles
    its = [one for profile in scope.profiles for one in profile.samples]
    stacks = {one.stack_index for one in its}
    locations = {index for stack in tables.stack_table for index in stack.location_indices}
    mappings = {location.mapping_index for location in tables.location_table}
    functions = {line.function_index for location in tables.location_table for line in location.lines}
    attributes = {
        index
        for holder in (its, tables.location_table, tables.mapping_table)
        for one in holder
        for index in one.attribute_indices
    }
    names = ("stack", "location", "mapping", "function", "attribute")
    for name, used in zip(names, (stacks, locations, mappings, functions, attributes), strict=True):
        assert used | {0} == set(range(len(getattr(tables, f"{name}_table")))), name
    build_ids = {
        strings[mapping.filename_strindex].rpartition("/")[2]: tables.attribute_table[
            index
        ].value.string_value
        for mapping in tables.mapping_table
        for index in mapping.attribute_indices
    }
    assert re.fullmatch("[0-9a-f]{8,}", build_ids["two_keepers"])
    assert len({(one.stack_index, tuple(one.attribute_indices)) for one in scope.profiles[0].samples}) == len(
        scope.profiles[0].samples
    )


# ---- text, tables ----------------------------------------------------------------------------------


def test_collapsed_comes_back_with_every_stack_and_byte(
    exported: dict[str, Path], recording: Recording
) -> None:
    assert live_of(collapsed.read([exported["collapsed"]])) == live(recording)


def test_flamegraph_pl_adds_the_stacks_up(exported: dict[str, Path], recording: Recording) -> None:
    script = shutil.which("flamegraph.pl", path=f"{os.environ['PATH']}:{NYTPROF}")
    if script is None:
        needs.skip("flamegraph.pl", needs.apt("flamegraph.pl"))
    options = ("--countname", "bytes", "--minwidth", "0")
    picture = ran(needs.program("perl"), script, *options, exported["collapsed"])
    found = Counter[str]()
    for name, number in re.findall(r"<title>(.+) \(([\d,]+) bytes, [\d.]+%\)</title>", picture):
        found[name] += int(number.replace(",", ""))
    assert found["all"] == sum(live(recording).values())
    assert {name: found[name] for name in TRUTH} == {name: truth[0] for name, truth in TRUTH.items()}


def test_the_callers_of_malloc_are_summed(exported: dict[str, Path], recording: Recording) -> None:
    """The caller is the function that wants memory, not malloc; addr2line finds it by library and offset."""
    rows = [line.split() for line in exported["mtrace-summary"].read_text().splitlines()[1:]]
    of_block = next(row for row in rows if row[2] == "block")
    blocks, size = (TRUTH[A][at] + TRUTH[B][at] for at in (1, 0))
    assert [int(number) for number in of_block[:2]] == [blocks, size]
    assert {row[2] for row in rows} >= {"keep_tiny", "keep_empty"}
    library, _, offset = of_block[4].partition("+")
    assert library == "two_keepers"
    program = next(one.path for one in recording.modules if one.path.endswith(library))
    call = hex(int(offset, 16) - 1)
    shown = ran(needs.program("addr2line"), "-f", "-e", program, call).split()
    assert shown[0] == "block"
    assert shown[1].rpartition("/")[2] == of_block[3].strip("()").rpartition("/")[2]


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_duckdb_reads_the_tables(exported: dict[str, Path], name: str) -> None:
    sums = ", ".join(f"sum({value})::BIGINT" for value in VALUES)
    for function, truth in TRUTH.items():
        has = (
            f"list_contains(stack, '{function}')"
            if name == "parquet"
            else f"list_contains(split(stack, ';'), '{function}')"
        )
        found = duckdb.sql(f"SELECT {sums} FROM '{exported[name]}' WHERE {has}")
        assert found is not None
        assert found.fetchall() == [truth]


# ---- equal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "parquet"])
def test_equal_recordings_give_equal_files(exported: dict[str, Path], recorded: Path, name: str) -> None:
    again = FORMATS[name].write(load(recorded), "both", "inuse_space")
    assert again == exported[name].read_bytes()
    if name in ("pprof", "heaptrack"):
        assert gzip.decompress(again)
