"""`offheap ps`: the JVMs of this machine and whether they are recorded."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offheap.jvm.discovery import JVM


_TERMS = {"idle": "stopped"}  # JSON keeps its own word


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the JVMs of this machine, and the live files that killed ones have left.  "
        "Root sees those of other users and containers in full."
    )
    parser.epilog = """examples:
  offheap ps
  offheap ps --json | jq '.jvms[].pid'"""
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.ps/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.jvm import discovery
    from offheap.recording import stale_files
    from offheap.report import clean, terminal

    jvms, stale = discovery.find_all(), stale_files.stale()
    if args.json:
        rows = {
            "jvms": [as_json(jvm) for jvm in jvms],
            "stale_files": [clean.file_value(file) for file in stale],
        }
        print(json.dumps({"schema": "offheap.ps/1", **rows}, indent=2))
        return 0
    if jvms:
        _print_table(jvms)
    else:
        print("no JVM is running here")
    if stale:
        print()
        clean.print_stale(terminal.console(), stale)
    return 0


def as_json(jvm: JVM) -> dict[str, object]:
    """One element of offheap.ps/1; what is not known is null."""
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


def _print_table(jvms: list[JVM]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from offheap.quantities import format_duration, format_size
    from offheap.report.text import printable

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in (
        ("PID", "right"),
        ("USER", "left"),
        ("JAVA", "left"),
        ("RSS", "right"),
        ("UP", "right"),
        ("RECORDED", "left"),
    ):
        table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
    table.add_column("MAIN", overflow="fold")
    for jvm in jvms:
        pid = str(jvm.pid) if jvm.pid == jvm.namespace_pid else f"{jvm.pid} ({jvm.namespace_pid})"
        cells = (
            pid,
            jvm.user,
            jvm.java_version or "?",
            format_size(jvm.rss_bytes),
            format_duration(jvm.uptime_seconds),
            _TERMS.get(jvm.recorded, jvm.recorded),
            jvm.title or "?",
        )
        # Text, not str: a main class may look like rich's markup.
        table.add_row(*(Text(printable(cell)) for cell in cells))
    Console().print(table)
