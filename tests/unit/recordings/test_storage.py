"""The recording on disk: a reader gets all that was written, in any state that its writer leaves."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import struct
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.paths import ROOT
from harness.recordings.stored import FRAMES, fill, info, live, process
from offheap.errors import UserError
from offheap.recording import load
from offheap.recording.model import NOT_STORED, Module
from offheap.recording.storage import finishing
from offheap.recording.storage.layout import APPENDED, REPLACED, SCHEMA
from offheap.recording.storage.parquet_parts import parts, reason
from offheap.recording.storage.parquet_tables import ParquetTables
from offheap.recording.storage.writer import writer

BLOCK_HEAD = struct.Struct("<4sIQQ")  # magic, rows, bytes inflated and deflated


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = writer(tmp_path_factory.mktemp("store") / "a.offheap")
    fill(target)
    target.finish()
    target.close()
    return target.path


@pytest.fixture
def recording(finished: Path, tmp_path: Path) -> Path:
    """A finished recording for tests that damage it."""
    return Path(shutil.copytree(finished, tmp_path / "a.offheap"))


def test_round_trip(recording: Path) -> None:
    got = load(recording)
    names = [frame.name for frame in got.stack(2)]
    assert names == ["malloc", FRAMES[2][0].name, "unknown Java method", "allocate", "build"]
    assert got.stack(1) == [*FRAMES[0], *FRAMES[1]]
    assert got.stack(2)[1] == FRAMES[2][0]
    assert got.stack(0) == []
    assert len(got.frames) == len(set(got.frames))
    assert got.threads == ["other threads", "main"]
    assert got.modules == [Module("/lib/libfoo.so", "0a0b", 4096, 8192, 0)]
    assert np.array_equal(got.live, live([1, 1, 2]))
    assert got.series["time"].tolist() == [0.0, 1.0, 2.0]
    assert got.series["stack"].tolist() == [1, 2, 2]
    assert got.process["rss_bytes"].tolist() == [1 << 30] * 3
    assert got.info == info(
        path=str(recording), duration_seconds=2.0, command_line=("java", "-jar", "größe ?.jar")
    )


def test_many_equal_blocks_are_no_damage(tmp_path: Path) -> None:
    """An exact recording of a leak: 3 million rows in 27 KB."""
    target = writer(tmp_path / "a.offheap")
    with contextlib.closing(target):
        fill(target)
        rows = live([1] * 3_000_000)
        rows["birth"] = np.arange(len(rows)) // 100_000 * 0.01
        target.replace_live(rows)
    assert len(load(target.path).live) == len(rows)


def test_owners_over_time(recording: Path) -> None:
    owners = load(recording).owners
    assert owners.times.tolist() == [0.0, 1.0, 2.0]
    assert owners.names == ["gc", "malloc"]
    assert owners.bytes.tolist() == [[0.0, 0.0], [5.0, 100.0], [0.0, 200.0]]
    assert owners.rss.tolist() == [0.0, 105.0, 200.0]
    assert {name: values.tolist() for name, values in owners.gauges.items()} == {"classes": [7.0, 8.0, 9.0]}


def test_recordings_without_owners_are_read(recording: Path) -> None:
    shutil.rmtree(recording / "owners")
    assert load(recording).owners.gauges["classes"].tolist() == []
    shutil.rmtree(recording / "gauges")
    got = load(recording).owners
    assert (len(got.times), got.names, got.bytes.shape, got.gauges) == (0, [], (0, 0), {})


def test_collections(recording: Path) -> None:
    ran = load(recording).collections
    assert ran is not None
    assert (ran.since, ran.kinds) == (0.25, ("young", "young"))
    assert ran.begun.tolist() == [1.0, 2.0]
    assert ran.ended.tolist() == [1.1, 2.1]
    assert ran.counts.tolist() == [1, 2]
    shutil.rmtree(recording / "collections")
    assert load(recording).collections is None


def test_heap_in_use_after_collections(recording: Path) -> None:
    heap = load(recording).heap
    assert (heap.times.tolist(), heap.bytes.tolist()) == ([1.2, 2.2], [4096.0, 8192.0])
    shutil.rmtree(recording / "heap")  # an older recording
    assert len(load(recording).heap.times) == 0


def test_one_part_a_table_after_finish(recording: Path) -> None:
    for table in APPENDED:
        assert len(os.listdir(recording / table)) == 1, table
    assert {p.name for p in recording.glob("*.parquet")} == {f"{t}.parquet" for t in REPLACED}
    assert not list(recording.rglob("*.writing"))


def rows_of(query: str) -> list[tuple[Any, ...]]:
    relation = duckdb.sql(query)
    assert relation is not None
    return relation.fetchall()


def test_columns_and_types_are_the_declared_ones(recording: Path) -> None:
    """Any DuckDB reads it with a glob."""
    for table, types in {**APPENDED, **REPLACED}.items():
        files = f"{recording}/{table}/*.parquet" if table in APPENDED else f"{recording}/{table}.parquet"
        described = rows_of(f"DESCRIBE SELECT * FROM '{files}'")
        assert {row[0]: row[1] for row in described} == types


def test_the_query_of_the_documentation(recording: Path) -> None:
    text = (ROOT / "docs" / "recording-format.md").read_text()
    query = text.split("```sql\n")[1].split("```")[0]
    rows = rows_of(query.replace("NAME.offheap", str(recording)))
    # Two blocks of 100 bytes with probability 1/4 on stack 1, one on stack 2; a block counts for
    # every function of its stack once.
    assert rows[0] == ("allocate", 1200.0)
    assert dict(rows)[FRAMES[2][0].name] == 400.0


def test_a_long_table_becomes_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finishing, "_PART_ROWS", 10)
    target = writer(tmp_path / "a.offheap")
    fill(target, 25)
    target.finish()
    target.close()
    assert [part.path.name for part in parts(target.path / "process")] == [
        f"{number:06}.parquet" for number in (1, 2, 3)
    ]
    assert load(target.path).process["time"].tolist() == list(range(25))


def test_a_very_long_table_has_larger_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader opens all parts at once, and few of them."""
    monkeypatch.setattr(finishing, "_PART_ROWS", 2)
    monkeypatch.setattr(finishing, "_PARTS_OF_A_SIZE", 2)
    monkeypatch.setattr(finishing, "_MOST_PART_ROWS", 6)
    target = writer(tmp_path / "a.offheap")
    fill(target, 25)
    target.finish()
    target.close()
    rows = [rows_of(f"SELECT count(*) FROM '{part.path}'")[0][0] for part in parts(target.path / "process")]
    assert rows == [2, 2, 4, 4, 6, 6, 1]
    assert load(target.path).process["time"].tolist() == list(range(25))


def test_the_parts_of_an_earlier_version(recording: Path) -> None:
    """Recordings of that version have a part for each snapshot, and a wider part replaces its members.

    The wide part and its members may both exist: nothing counts twice.
    """
    (whole,) = (recording / "series").iterdir()
    for number in range(3):
        part = recording / "series" / f"{number + 1:06}.parquet.new"
        duckdb.sql(f"COPY (SELECT * FROM '{whole}' WHERE time = {number}) TO '{part}' (FORMAT parquet)")
    whole.rename(recording / "series" / "000001-000003.parquet")
    for part in (recording / "series").glob("*.new"):
        part.rename(part.with_suffix(""))
    assert len(os.listdir(recording / "series")) == 4
    assert load(recording).series["time"].tolist() == [0.0, 1.0, 2.0]
    (recording / "series" / "000001-000003.parquet").unlink()
    assert load(recording).series["time"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("written", range(1, 4))
def test_killed_between_snapshots(tmp_path: Path, written: int) -> None:
    target = writer(tmp_path / "a.offheap")
    fill(target, written)
    target.close()
    with (target.path / "journal" / "series.blocks").open("ab") as file:
        file.write(BLOCK_HEAD.pack(b"ohb1", 1, 88, 50) + b"half a block")
    (target.path / "journal" / ".live.writing").write_bytes(b"half a table")
    got = load(target.path)
    assert got.process["time"].tolist() == list(range(written))
    assert len(got.live) == written


def test_the_time_of_the_live_set_is_kept(tmp_path: Path) -> None:
    target = writer(tmp_path / "a.offheap")
    fill(target)
    target.replace_info(info(duration_seconds=2.0, live_time=1.0))
    target.close()
    assert load(target.path).info.live_time == 1.0


def test_a_recording_without_the_time_of_its_live_set_is_read(recording: Path) -> None:
    meta = json.loads((recording / "meta.json").read_text())
    del meta["live_time"]
    (recording / "meta.json").write_text(json.dumps(meta))
    assert load(recording).info.live_time == 0.0


def test_series_may_be_ahead_of_meta(tmp_path: Path) -> None:
    target = writer(tmp_path / "a.offheap")
    fill(target)
    target.append_rows("process", process(5.0))
    target.close()
    assert load(target.path).info.duration_seconds == 5.0


def test_an_empty_part_is_what_a_power_failure_leaves(recording: Path) -> None:
    (recording / "series" / "000099.parquet").touch()
    assert len(load(recording).series) == 3


def test_a_moved_recording_reads_the_same(recording: Path, tmp_path: Path) -> None:
    before = load(recording)
    moved = recording.rename(tmp_path / "elsewhere [x] 'q'*.offheap")
    after = load(moved)
    assert after.stack(2) == before.stack(2)
    assert np.array_equal(after.series, before.series)


def test_tables_of_one_second_are_told_apart(recording: Path) -> None:
    """DuckDB 1.4 reuses the bytes of one descriptor for the next table with the same number."""
    before = load(recording)
    for file in recording.rglob("*.parquet"):
        os.utime(file, (1.7e9, 1.7e9))
    for _ in range(2):
        after = load(recording)
        assert np.array_equal(after.series, before.series)
        assert after.frames == before.frames


# One line for each fault.


def test_existing_output(recording: Path) -> None:
    with pytest.raises(UserError, match="exists already; choose another name"):
        writer(recording)


def test_output_in_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot create .*: No such file"):
        writer(tmp_path / "nowhere" / "a.offheap")


def test_foreign_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a recording of offheap: it has no meta\.json"):
        load(tmp_path)


def test_newer_recording(recording: Path) -> None:
    meta = json.loads((recording / "meta.json").read_text())
    assert meta["schema"] == SCHEMA
    meta["schema"] = "offheap.recording/2"
    (recording / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match=r"newer offheap.*upgrade"):
        load(recording)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "17", "{}", '{"schema": 3}', "[" * 100_000, '{"schema": "other/1"}']
)
def test_foreign_meta(recording: Path, text: str) -> None:
    (recording / "meta.json").write_text(text)
    with pytest.raises(UserError, match=r"damaged|not a recording"):
        load(recording)


WRONG = [
    (name, value)
    for name, right in dataclasses.asdict(info()).items()
    for value in (None, [1], {"a": None}, "x", -1.5)
    if name not in NOT_STORED and not isinstance(value, type(right))
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_meta(recording: Path, name: str, value: object) -> None:
    meta = json.loads((recording / "meta.json").read_text())
    meta[name] = value
    (recording / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match=f"damaged: {name} is"):
        load(recording)


@pytest.mark.parametrize("table", [*APPENDED, *REPLACED])
def test_truncated_part(recording: Path, table: str) -> None:
    file = next((recording / table).iterdir()) if table in APPENDED else recording / f"{table}.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match=rf"{table}.*damaged"):
        load(recording)


@pytest.mark.parametrize("table", [*APPENDED, *REPLACED])
def test_part_of_something_else(recording: Path, table: str) -> None:
    file = next((recording / table).iterdir()) if table in APPENDED else recording / f"{table}.parquet"
    file.unlink()
    duckdb.sql(f"COPY (SELECT 1 AS one) TO '{file}' (FORMAT parquet)")
    with pytest.raises(UserError, match=rf"{table}.*damaged"):
        load(recording)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("stacks", "4000000000::UINTEGER AS stack, * EXCLUDE stack"),
        ("stacks", "[4000000000::UINTEGER] AS frames, * EXCLUDE frames"),
        ("live", "4000000000::UINTEGER AS stack, * EXCLUDE stack"),
        ("live", "0.0 AS probability, * EXCLUDE probability"),
        ("live", "NULL::UBIGINT AS size, * EXCLUDE size"),
        ("series", "-time AS time, * EXCLUDE time"),
        ("process", "'nan'::DOUBLE AS time, * EXCLUDE time"),
        ("owners", "'inf'::DOUBLE AS bytes, * EXCLUDE bytes"),
        ("gauges", "NULL::DOUBLE AS value, * EXCLUDE value"),
        ("frames", "'weird' AS kind, * EXCLUDE kind"),
        ("collections", "'weird' AS kind, * EXCLUDE kind"),
        ("collections", "'nan'::DOUBLE AS ended, * EXCLUDE ended"),
        ("heap", "'nan'::DOUBLE AS time, * EXCLUDE time"),
        ("heap", "-1.0::DOUBLE AS bytes, * EXCLUDE bytes"),
    ],
)
def test_hostile_values(recording: Path, tmp_path: Path, table: str, change: str) -> None:
    file = next((recording / table).iterdir()) if table in APPENDED else recording / f"{table}.parquet"
    duckdb.sql(f"COPY (SELECT {change} FROM '{file}') TO '{tmp_path}/changed.parquet' (FORMAT parquet)")
    (tmp_path / "changed.parquet").rename(file)
    with pytest.raises(UserError, match="damaged"):
        load(recording)


@settings(max_examples=60)
@given(data=st.data())
def test_flipped_bytes(finished: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.offheap"
    shutil.copytree(finished, path, dirs_exist_ok=True)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    file = data.draw(st.sampled_from([path / "meta.json", *files]))
    raw = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(raw)
    with contextlib.suppress(UserError):
        load(path)


def test_damage_of_which_duckdb_says_nothing() -> None:
    """A flipped byte of `frames` gives an error without a message, which must not cause an IndexError."""
    assert reason(duckdb.InvalidInputException("")) == "DuckDB gives no reason"
    assert reason(duckdb.IOException("disk full\nhint")) == "disk full"


def test_a_damaged_recording_says_nothing_of_the_next(finished: Path, recording: Path) -> None:
    """The lowest bit of an offset is its sign: a wrong one makes DuckDB invalidate its database."""
    file = recording / "threads.parquet"
    raw = file.read_bytes()
    (footer,) = struct.unpack_from("<I", raw, len(raw) - 8)
    for at in range(len(raw) - 8 - footer, len(raw) - 8):
        changed = bytearray(raw)
        changed[at] ^= 1
        file.write_bytes(changed)
        tables = ParquetTables(recording)
        with contextlib.suppress(UserError), contextlib.closing(tables):
            tables.read("threads")
    assert len(load(finished).live) == 3


def test_a_table_that_is_replaced_while_it_is_read(recording: Path, tmp_path: Path) -> None:
    """One of the two tables, never the head of one with the rows of the other."""
    rows = {"short": 10, "long": 20_000}
    for name, count in rows.items():
        duckdb.sql(
            f"COPY (SELECT l.* FROM '{recording}/live.parquet' l, range({count}) LIMIT {count}) "
            f"TO '{tmp_path}/{name}' (FORMAT parquet)"
        )
    begun, ended = threading.Event(), threading.Event()

    def replace() -> None:
        for name in itertools.cycle(rows):
            os.link(tmp_path / name, recording / ".next")
            (recording / ".next").replace(recording / "live.parquet")
            begun.set()
            if ended.is_set():
                return

    replacing = threading.Thread(target=replace)
    replacing.start()
    assert begun.wait(10)
    try:
        found = {len(load(recording).live) for _ in range(30)}
    finally:
        ended.set()
        replacing.join()
    assert found == set(rows.values())


# Size and speed.


def test_no_product_of_matrices_wakes_a_thread_a_processor() -> None:
    """numpy's BLAS makes threads spin for work: 0.45 s of CPU in a diff on two processors."""
    sources = (ROOT / "src" / "offheap").rglob("*.py")
    found = [
        f"{path.name}:{node.lineno}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    ]
    assert not found
