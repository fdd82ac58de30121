"""JSON of the commands between offheap and other tools, and of those that write a recording anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from offheap.recording.model import Info
from offheap.report.json.schemas import Value


class ProfiledProcess(NamedTuple):
    """A recording with the number of its dumps; without a perf map or a picture these are None."""

    info: Info
    dumps: int
    perf_map: Path | None
    call_graph: Path | None


def imported(info: Info, files: int) -> Value:
    """offheap.import/1."""
    return {"schema": "offheap.import/1", **_of_import(info, files)}


def _of_import(info: Info, files: int) -> Value:
    return {
        "recording": info.path,
        "format": info.imported,
        "files": files,
        "pid": info.pid or None,
        "mode": info.mode,
        "interval_bytes": info.interval_bytes,
        "duration_seconds": round(info.duration_seconds, 3),
        "births": info.births,
        "coverage": list(info.coverage),
    }


def dumped(pid: int, dump: Path, perf_map: Path | None, why: str) -> Value:
    """offheap.jemalloc-dump/1; `why` there is no perf map, "" if there is one."""
    return {
        "schema": "offheap.jemalloc-dump/1",
        "pid": pid,
        "dump": str(dump),
        "perf_map": str(perf_map) if perf_map else None,
        "why": why,
    }


def profiled(
    status: int,
    library: str,
    folder: Path,
    made: Iterable[ProfiledProcess],
    problems: Iterable[str],
) -> Value:
    """offheap.jemalloc-run/1."""
    return {
        "schema": "offheap.jemalloc-run/1",
        "status": status,
        "library": library,
        "folder": str(folder),
        "recordings": [
            {
                **_of_import(one.info, one.dumps),
                "perf_map": str(one.perf_map) if one.perf_map else None,
                "call_graph": str(one.call_graph) if one.call_graph else None,
            }
            for one in made
        ],
        "problems": list(problems),
    }


def mtrace(
    pid: int, glibc: tuple[int, int] | None, ignored: bool, preloaded: bool, log: str, instead: list[str]
) -> Value:
    """offheap.mtrace/1."""
    return {
        "schema": "offheap.mtrace/1",
        "pid": pid,
        "glibc": ".".join(map(str, glibc)) if glibc else None,
        "ignored": ignored,
        "preloaded": preloaded,
        "log": log or None,
        "instead": instead,
    }


def exported(output: Path, format_: str, size: int) -> Value:
    """offheap.exported/1; offheap.export/1 is a format of the file."""
    return {"schema": "offheap.exported/1", "path": str(output), "format": format_, "bytes": size}


def pushed(server: str, sent: int, waiting: int, lost: int, spool: Path) -> Value:
    """offheap.push/1: numbers of profiles."""
    return {
        "schema": "offheap.push/1",
        "server": server,
        "sent": sent,
        "waiting": waiting,
        "lost": lost,
        "spool": str(spool),
    }


def symbolized(
    output: Path, named: int, unnamed: int, located: int, missing: Iterable[Value], problems: Iterable[str]
) -> Value:
    """offheap.symbolize/1: numbers of frames."""
    return {
        "schema": "offheap.symbolize/1",
        "recording": str(output),
        "unnamed": unnamed,
        "named": named,
        "located": located,
        "missing": list(missing),
        "problems": list(problems),
    }


def anonymized(output: Path, hashed: int, readable: int, key_kept: bool) -> Value:
    """offheap.anonymize/1: numbers of distinct names."""
    return {
        "schema": "offheap.anonymize/1",
        "recording": str(output),
        "hashed": hashed,
        "readable": readable,
        "key_kept": key_kept,
    }
