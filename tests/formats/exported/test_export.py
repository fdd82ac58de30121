"""Exported recordings, read by what reads each format."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import numpy as np
import pytest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)

from harness import needs
from harness.paths import ROOT
from harness.recordings.java_beside_native import shop
from offheap.analysis.totals import totals
from offheap.formats.exported.content.samples import VALUES, Samples, Side, samples
from offheap.formats.exported.formats import FORMATS
from offheap.formats.pprof_schema import profile_class
from offheap.recording.model import Frame, Recording

SCHEMA = ROOT / "tests" / "data" / "speedscope" / "file-format-schema.json"


@pytest.fixture(scope="module")
def recording() -> Recording:
    return shop()


@pytest.fixture(scope="module")
def whole(recording: Recording) -> Samples:
    return samples(recording)


def written(recording: Recording, name: str, side: Side = "both", value: Any = "inuse_space") -> bytes:
    return FORMATS[name].write(recording, side, value)


def by_stack(of: Samples) -> Counter[tuple[str, ...]]:
    """Live bytes by the names of a stack, innermost first."""
    found: Counter[tuple[str, ...]] = Counter()
    for place, number in enumerate(of.values["inuse_space"].tolist()):
        found[tuple(frame.name for frame in of.frames(place))] += number
    return +found


def by_verdict(of: Samples) -> Counter[str]:
    """Live bytes; "" is of no site."""
    found: Counter[str] = Counter()
    for verdict, number in zip(of.verdicts, of.values["inuse_space"].tolist(), strict=True):
        found[verdict] += number
    assert found["leak"] > 0
    return +found


def test_whole_numbers_have_the_sum_of_the_estimates(recording: Recording) -> None:
    native, java = (samples(recording, side) for side in ("native", "java"))
    assert recording.java
    live = totals.live(recording)[0].estimate
    assert int(native.values["inuse_space"].sum()) == pytest.approx(live, abs=1)
    both = samples(recording)
    for value in VALUES:
        assert both.values[value].sum() == pytest.approx(
            native.values[value].sum() + java.values[value].sum(), abs=2
        )
        assert (both.values[value] >= 0).all()
    assert set(java.verdicts) & {"leak"}
    assert {both.kind(place) for place in range(len(both.stacks))} == {"malloc", "java"}


def test_pprof_keeps_every_stack_and_byte(recording: Recording, whole: Samples) -> None:
    import gzip

    profile = profile_class()()
    profile.ParseFromString(gzip.decompress(written(recording, "pprof")))
    strings = [text.decode() for text in profile.string_table]
    assert strings[0] == ""
    assert len(set(strings)) == len(strings)
    functions = {one.id: strings[one.name] for one in profile.function}
    locations = {one.id: [functions[line.function_id] for line in one.line] for one in profile.location}
    found: Counter[tuple[str, ...]] = Counter()
    verdicts: Counter[str] = Counter()
    for sample in profile.sample:
        stack = tuple(name for location in sample.location_id for name in locations[location])
        found[stack] += sample.value[0]
        labels = {strings[label.key]: strings[label.str] for label in sample.label}
        assert labels["kind"] in ("malloc", "java")
        verdicts[labels.get("verdict", "")] += sample.value[0]
    assert +found == by_stack(whole)
    assert +verdicts == by_verdict(whole)
    assert [strings[one.type] for one in profile.sample_type] == list(VALUES)
    assert strings[profile.default_sample_type] == "inuse_space"
    assert written(recording, "pprof") == written(recording, "pprof")


def test_go_reads_pprof(recording: Recording, whole: Samples, tmp_path: Path) -> None:
    go = needs.program("go", "go tool pprof")
    file = tmp_path / "shop.pb.gz"
    file.write_bytes(written(recording, "pprof"))
    command = [go, "tool", "pprof", "-raw", str(file)]
    raw = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    rows = [line.split(":")[0].split() for line in raw.splitlines() if line[:1] == " " and ": " in line]
    numbers = [
        list(map(int, row)) for row in rows if len(row) == len(VALUES) and all(map(str.isdecimal, row))
    ]
    assert np.sum(numbers, axis=0).tolist() == [int(whole.values[value].sum()) for value in VALUES]


def test_inlined_frames_are_lines_of_one_location(recording: Recording) -> None:
    of = samples(recording)
    chain = [Frame("inner", "native", inlined=True), Frame("outer", "native"), Frame("main", "native")]

    class Inlined(Samples):
        def frames(self, place: int) -> list[Frame]:
            return chain

    calls = Inlined(of.recording, of.stacks, of.values, of.verdicts, of.held).calls(0)
    assert [[frame.name for frame in call] for call in calls] == [["inner", "outer"], ["main"]]


def test_otlp_follows_the_rules_of_profcheck(recording: Recording, whole: Samples) -> None:
    """Entry 0 of each table is the zero value, an index is of its table, nothing is in a table twice."""
    request = ExportProfilesServiceRequest.FromString(written(recording, "otlp"))
    tables = request.dictionary
    names = ("mapping", "location", "function", "link", "attribute", "stack")
    sizes = {name: len(getattr(tables, f"{name}_table")) for name in names}
    for name in names:
        table = getattr(tables, f"{name}_table")
        assert table[0] == type(table[0])(), name
        assert len({one.SerializeToString() for one in table}) == len(table), name
    strings = list(tables.string_table)
    assert strings[0] == ""
    assert len(set(strings)) == len(strings)
    for stack in tables.stack_table:
        assert all(0 < index < sizes["location"] for index in stack.location_indices)
    for location in list(tables.location_table)[1:]:
        assert location.mapping_index < sizes["mapping"]
        assert location.lines
        assert all(0 < line.function_index < sizes["function"] for line in location.lines)
        assert all(0 < index < sizes["attribute"] for index in location.attribute_indices)
    for attribute in list(tables.attribute_table)[1:]:
        assert strings[attribute.key_strindex]
        assert attribute.value.string_value
    (resource,) = request.resource_profiles
    (scope,) = resource.scope_profiles
    identities = set()
    for profile, value in zip(scope.profiles, VALUES, strict=True):
        assert strings[profile.sample_type.type_strindex] == value
        assert strings[profile.sample_type.unit_strindex] == VALUES[value]
        assert len(profile.profile_id) == 16
        identities.add(profile.profile_id)
        assert profile.time_unix_nano
        total = 0
        for sample in profile.samples:
            assert 0 < sample.stack_index < sizes["stack"]
            assert all(0 < index < sizes["attribute"] for index in sample.attribute_indices)
            (number,) = sample.values
            total += number
        assert total == whole.values[value].sum()
    assert len(identities) == len(VALUES)


def test_otlp_says_each_verdict(recording: Recording, whole: Samples) -> None:
    request = ExportProfilesServiceRequest.FromString(written(recording, "otlp"))
    tables = request.dictionary
    verdicts: Counter[str] = Counter()
    for sample in request.resource_profiles[0].scope_profiles[0].profiles[0].samples:
        attributes = [tables.attribute_table[index] for index in sample.attribute_indices]
        facts = {tables.string_table[one.key_strindex]: one.value.string_value for one in attributes}
        verdicts[facts.get("offheap.verdict", "")] += sample.values[0]
    assert verdicts == by_verdict(whole)


def test_otlp_has_the_numbers_of_todays_schema(recording: Recording) -> None:
    """opentelemetry-proto before 1.43 numbers a sample's fields differently; its own classes do not tell."""
    request = ExportProfilesServiceRequest.FromString(written(recording, "otlp"))
    sample = request.resource_profiles[0].scope_profiles[0].profiles[0].samples[0]
    assert {field.name: field.number for field, _ in sample.ListFields()} == {
        "stack_index": 1,
        "attribute_indices": 2,
        "values": 4,
    }


def test_speedscope_has_its_own_schema(recording: Recording, whole: Samples) -> None:
    document = json.loads(written(recording, "speedscope"))
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    live = document["profiles"][0]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    found: Counter[tuple[str, ...]] = Counter()
    for stack, weight in zip(live["samples"], live["weights"], strict=True):
        found[tuple(names[frame] for frame in reversed(stack))] += weight
    assert found == by_stack(whole)
    assert live["endValue"] == sum(live["weights"])


def test_collapsed_stacks_are_outermost_first(recording: Recording, whole: Samples) -> None:
    found: Counter[tuple[str, ...]] = Counter()
    for line in written(recording, "collapsed").decode().splitlines():
        stack, _, number = line.rpartition(" ")
        found[tuple(reversed(stack.split(";")))] += int(number)
    assert found == by_stack(whole)
    blocks = written(recording, "collapsed", "native", "alloc_objects").decode().splitlines()
    allocated = samples(recording, "native").values["alloc_objects"].sum()
    assert sum(int(line.rpartition(" ")[2]) for line in blocks) == allocated


def test_jeprof_reads_jemallocs_format(recording: Recording, whole: Samples, tmp_path: Path) -> None:
    jeprof = needs.program("jeprof")
    file = tmp_path / "shop.heap"
    file.write_bytes(written(recording, "jemalloc"))
    command = [jeprof, "--collapsed", "--inuse_space", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    total = sum(int(line.rpartition(" ")[2]) for line in done.stdout.splitlines())
    assert total == whole.values["inuse_space"].sum()
    assert "com.example.Carts.open" in done.stdout


def test_callers_of_malloc_have_their_java_callers(recording: Recording) -> None:
    """The innermost Java method, and the application's method that called it."""
    lines = written(recording, "mtrace-summary").decode().splitlines()
    place = lines[0].index("Java callers")
    init = "java.util.zip.Inflater.init < com.example.Images"
    expected = {
        ("byte[]", "com.example.Cart.<init>"),
        ("java.lang.String", "com.example.Feed.read"),
        ("com.example.Order", "com.example.Orders.take"),
        ("inflateInit2_", f"{init}.decode"),
        ("inflateInit2_", f"{init}.zip"),
    }
    assert {(line.split()[2], line[place:]) for line in lines[1:]} == expected


def test_tables_have_the_same_rows(recording: Recording, whole: Samples, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(written(recording, "csv").decode())))
    document = json.loads(written(recording, "json"))
    file = tmp_path / "shop.parquet"
    file.write_bytes(written(recording, "parquet"))
    table = duckdb.sql(f"SELECT * FROM '{file}'")
    assert table is not None
    parquet = table.fetchall()
    assert len(rows) == len(document["stacks"]) == len(parquet) == len(whole.stacks)
    for row, one, columns in zip(rows, document["stacks"], parquet, strict=True):
        other = dict(zip(table.columns, columns, strict=True))
        for value in VALUES:
            assert int(row[value]) == one[value] == other[value]
        assert row["stack"].split(";") == [frame["name"] for frame in one["stack"]] == other["stack"]
        assert row["verdict"] == one["verdict"] == other["verdict"]


def test_a_name_is_no_formula_of_a_spreadsheet(recording: Recording) -> None:
    from dataclasses import replace

    named = replace(
        recording, frames=[frame._replace(name="=cmd|' /C calc'!A0") for frame in recording.frames]
    )
    for row in csv.DictReader(io.StringIO(written(named, "csv").decode())):
        assert row["stack"].startswith("'=")


def test_counters_over_time_are_chromes(recording: Recording) -> None:
    events = json.loads(written(recording, "chrome-trace"))["traceEvents"]
    live = [event for event in events if event["name"] == "live native memory"]
    assert [event["ts"] for event in live] == pytest.approx((recording.process["time"] * 1e6).tolist())
    assert live[-1]["args"]["bytes"] == pytest.approx(float(recording.process["live_bytes"][-1]))
    assert {event["name"] for event in events if event["ph"] == "X"} == {
        "young collection",
        "full collection",
    }


def test_names_that_are_no_text_are_written(recording: Recording) -> None:
    from dataclasses import replace

    odd = "a;b \udcff\n\x00\u2028"
    named = replace(recording, frames=[frame._replace(name=odd) for frame in recording.frames])
    for name in FORMATS:
        assert written(named, name), name
