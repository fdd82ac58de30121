"""A row a stack, for notebooks and spreadsheets: CSV, JSON and Parquet have the same columns.

kind, verdict          as `Samples` has them
thread                 that holds most of what the stack holds
inuse_space ...        whole numbers, see VALUES
stack                  innermost first; in CSV the frames have semicolons between
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from offheap.formats.exported.content.samples import VALUES, Samples, text

SCHEMA = "offheap.export/1"


def as_csv(samples: Samples) -> bytes:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["kind", "verdict", "thread", *VALUES, "stack"])
    for row in _rows(samples):
        names = [_cell(name) for name in row["stack"]]
        facts = [row["kind"], row["verdict"], _cell(row["thread"])]
        writer.writerow([*facts, *(row[value] for value in VALUES), ";".join(names)])
    return lines.getvalue().encode()


def as_json(samples: Samples) -> bytes:
    """A document of the schema SCHEMA; a frame is an object."""
    rows = list(_rows(samples))
    for place, row in enumerate(rows):
        row["stack"] = [
            {
                "name": text(frame.name),
                "kind": frame.kind,
                "module": text(frame.module),
                "file": text(frame.file),
                "line": frame.line,
                "inlined": frame.inlined,
            }
            for frame in samples.frames(place)
        ]
    return json.dumps({"schema": SCHEMA, "units": VALUES, "stacks": rows}, separators=(",", ":")).encode()


def as_parquet(samples: Samples) -> bytes:
    """zstd; `stack` is a list of texts, numbers are signed and have 64 bits."""
    import duckdb

    rows = list(_rows(samples))
    with tempfile.TemporaryDirectory(prefix="offheap-export-") as folder, duckdb.connect() as connection:
        lines, output = Path(folder) / "rows.json", Path(folder) / "rows.parquet"
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = ("kind", "verdict", "thread")
        columns = [*((name, "VARCHAR") for name in words), *((name, "BIGINT") for name in VALUES)]
        columns.append(("stack", "VARCHAR[]"))
        types = ", ".join(f"{name}: '{kind}'" for name, kind in columns)
        connection.execute(
            f"COPY (SELECT * FROM read_json('{lines}', format = 'newline_delimited', columns = {{{types}}}, "
            f"maximum_object_size = {64 << 20})) TO '{output}' (FORMAT parquet, COMPRESSION zstd)"
        )
        return output.read_bytes()


def _rows(samples: Samples) -> Iterator[dict[str, Any]]:
    columns = {value: numbers.tolist() for value, numbers in samples.values.items()}
    for place in range(len(samples.stacks)):
        yield {
            "kind": samples.kind(place),
            "verdict": samples.verdicts[place],
            "thread": text(samples.thread(place)),
            **{value: column[place] for value, column in columns.items()},
            "stack": [text(frame.name) for frame in samples.frames(place)],
        }


def _cell(name: str) -> str:
    # A spreadsheet runs what begins so as a formula; the names are the recorded program's.
    safe = name.replace(";", ",")
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@", "\t", "\r") else safe
