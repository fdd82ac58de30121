"""`offheap trim`: returns malloc's free memory to the system and shows RSS before and after."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make glibc return its free memory to the system, as malloc_trim(3) does, and show RSS and "
        "what is kept before and after.  JDK 17 and later do this themselves; on JDK 11 a loaded probe "
        "does.  No safepoint; an allocating thread waits while its arena is trimmed."
    )
    parser.epilog = """examples:
  offheap trim 4711
  offheap trim shop --json | jq '.before.rss_bytes - .after.rss_bytes'
"""
    parser.add_argument("process", metavar="PID|NAME", help="a PID, or part of a main class or jar name")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.trim/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.inspect import discovery
    from offheap.inspect.trimmed import trim_and_inspect
    from offheap.probe.live_files import stale_files

    stale_files.sweep()
    trimmed = trim_and_inspect(discovery.resolve(args.process))
    if args.json:
        from offheap.report.json import native_heap as native_heap_json
        from offheap.report.json.schemas import dumps

        print(dumps(native_heap_json.trim(trimmed)))
        return 0
    from offheap.report.terminal.console import console
    from offheap.report.terminal.process import native_heap as native_heap_text

    native_heap_text.print_trim(console(), trimmed)
    return 0
