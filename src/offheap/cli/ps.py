"""`offheap ps`: the JVMs of this machine and whether they are recorded."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from offheap.quantities import format_duration, format_size
from offheap.report.text.printable import printable
from offheap.report.text.width import columns, wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from offheap.inspect.discovery import JVM

_RIGHT = ("PID", "RSS", "UP")

_TERMS = {"idle": "stopped"}  # JSON keeps its own word
_SENTENCES = {"no": "not recorded", "stopped": "the probe is stopped"}  # without a heading


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the JVMs of this machine, and the live files that killed JVMs left.  "
        "Root sees those of other users and containers in full."
    )
    parser.epilog = """examples:
  offheap ps
  offheap ps --json | jq '.jvms[].pid'"""
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.ps/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.inspect import discovery
    from offheap.probe.live_files import stale_files
    from offheap.report.json.clean import file_value
    from offheap.report.terminal import clean
    from offheap.report.terminal.console import console
    from offheap.report.text.lines import put

    stale_files.sweep()
    jvms, stale = discovery.find_all(), stale_files.stale()
    if args.json:
        rows = {
            "jvms": [as_json(jvm) for jvm in jvms],
            "stale_files": [file_value(file) for file in stale.files],
        }
        print(json.dumps({"schema": "offheap.ps/1", **rows}, indent=2))
        return 0
    out = console()
    if jvms:
        _print_table(out, jvms)
    else:
        put(out, "no JVM is running here")
    if stale.files:
        put(out)
        clean.print_stale(out, stale)
    return 0


def as_json(jvm: JVM) -> dict[str, object]:
    """One element of offheap.ps/1; unknown values are null."""
    return {
        "pid": jvm.pid,
        "namespace_pid": jvm.namespace_pid,
        "user": jvm.user,
        "java_version": jvm.java_version or None,
        "main": jvm.main or None,
        "main_class": jvm.main_class or None,
        "rss_bytes": jvm.rss_bytes,
        "uptime_seconds": round(jvm.uptime_seconds, 1),
        "recorded": jvm.recorded,
        "live_file": jvm.live_file or None,
    }


def _print_table(out: Console, jvms: list[JVM]) -> None:
    from offheap.report.text.lines import put

    rows = [("PID", "USER", "JAVA", "RSS", "UP", "RECORDED", "MAIN"), *map(_cells, jvms)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    if sum(widths) + 2 * len(widths) > columns():
        for pid, user, java, rss, uptime, recorded, main in rows[1:]:
            put(out, f"{pid}  {main}")
            for line in wrapped(
                f"{user}, Java {java}, {rss}, up {uptime}, {_SENTENCES.get(recorded, recorded)}", indent=4
            ):
                put(out, line)
        return
    for number, row in enumerate(rows):
        cells = [
            cell.rjust(size) if heading in _RIGHT else cell.ljust(size)
            for cell, size, heading in zip(row, widths, rows[0], strict=False)
        ]
        put(out, ("  ".join([*cells, row[-1]]), "" if number else "bold"))


def _cells(jvm: JVM) -> tuple[str, ...]:
    return (
        str(jvm.pid) if jvm.pid == jvm.namespace_pid else f"{jvm.pid} ({jvm.namespace_pid})",
        printable(jvm.user),
        printable(jvm.java_version or "?"),
        format_size(jvm.rss_bytes),
        format_duration(jvm.uptime_seconds),
        _TERMS.get(jvm.recorded, jvm.recorded),
        printable(jvm.title or "?"),
    )
