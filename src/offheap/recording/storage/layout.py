"""The tables of a recording on disk: names, columns, types.  docs/recording-format.md describes them."""

from __future__ import annotations

SCHEMA = "offheap.recording/1"
META = "meta.json"
# The kind of a row of `collections` that is no collection: the count starts at its time.  The collector
# follows where a judgement depends on it: "counted G1".
COUNTED = "counted"

# table -> column -> DuckDB type.  Tables that grow; a journal has `heads` and `members` for `stacks`.
APPENDED: dict[str, dict[str, str]] = {
    "process": {
        "time": "DOUBLE",
        "rss_bytes": "UBIGINT",
        "live_bytes": "DOUBLE",
        "live_blocks": "DOUBLE",
        "allocated_bytes": "DOUBLE",
        "threads": "UINTEGER",
    },
    "series": {
        "time": "DOUBLE",
        "stack": "UINTEGER",
        "live_blocks": "DOUBLE",
        "live_bytes": "DOUBLE",
        "live_blocks_variance": "DOUBLE",
        "live_bytes_variance": "DOUBLE",
        "allocated_blocks": "DOUBLE",
        "allocated_bytes": "DOUBLE",
        "allocated_blocks_variance": "DOUBLE",
        "allocated_bytes_variance": "DOUBLE",
        "samples": "UBIGINT",
    },
    "owners": {"time": "DOUBLE", "owner": "VARCHAR", "bytes": "DOUBLE"},
    "gauges": {"time": "DOUBLE", "gauge": "VARCHAR", "value": "DOUBLE"},
    "heap": {"time": "DOUBLE", "bytes": "DOUBLE"},
    "collections": {"time": "DOUBLE", "ended": "DOUBLE", "kind": "VARCHAR", "count": "UINTEGER"},
    "stacks": {
        "stack": "UINTEGER",
        "kind": "UTINYINT",
        "frames": "UINTEGER[]",
    },
    "frames": {
        "frame": "UINTEGER",
        "position": "USMALLINT",
        "name": "VARCHAR",
        "kind": "VARCHAR",
        "module": "VARCHAR",
        "file": "VARCHAR",
        "line": "UINTEGER",
        "inlined": "BOOLEAN",
        "raw": "UBIGINT",
    },
}

REPLACED: dict[str, dict[str, str]] = {
    "live": {
        "stack": "UINTEGER",
        "thread": "USMALLINT",
        "size": "UBIGINT",
        "birth": "DOUBLE",
        "probability": "DOUBLE",
    },
    "threads": {"thread": "USMALLINT", "name": "VARCHAR"},
    "modules": {
        "module": "UINTEGER",
        "path": "VARCHAR",
        "build_id": "VARCHAR",
        "start_address": "UBIGINT",
        "end_address": "UBIGINT",
        "bias": "UBIGINT",
    },
}

# Tables of a journal alone.  The frames of a stack are the next `depth` of `members`, which is written first.
JOURNALED: dict[str, dict[str, str]] = {
    "heads": {"stack": "UINTEGER", "kind": "UTINYINT", "depth": "UINTEGER"},
    "members": {"frame": "UINTEGER"},
    # Every frame as the probe wrote it, also those that have no name yet.
    "raws": {"frame": "UINTEGER", "raw": "UBIGINT"},
}
