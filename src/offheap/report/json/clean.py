"""offheap.clean/1: docs/json.md describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offheap.report.json.schemas import Value

if TYPE_CHECKING:
    from offheap.probe.live_files.stale_files import LiveFileFound, Survey


def file_value(file: LiveFileFound) -> Value:
    """What is known of a live file, removed or kept."""
    return {
        "path": str(file.path),
        "user": file.user,
        "pid": file.pid,
        "bytes": file.bytes,
        "age_seconds": round(file.seconds, 1),
    }


def clean_json(found: Survey, *, dry_run: bool) -> Value:
    """offheap.clean/1."""
    return {
        "schema": "offheap.clean/1",
        "dry_run": dry_run,
        "files": [
            {**file_value(file), "removed": file.removed, "kept": file.kept or None} for file in found.files
        ],
        "freed_bytes": found.freed_bytes,
        "stale_bytes": found.stale_bytes,
    }
