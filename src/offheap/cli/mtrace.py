"""`offheap mtrace`: what glibc's mtrace() can do in a process, and what finds the same without it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offheap.cli.sweeping import sweep
from offheap.report.text.printable import printable

if TYPE_CHECKING:
    from offheap.inspect.mtrace_support import MtraceSupport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say whether glibc's mtrace() works in a process, and which commands record every block without "
        "it. Since glibc 2.34 mtrace() does nothing unless libc_malloc_debug.so.0 is preloaded. The command "
        "changes nothing in the process."
    )
    parser.epilog = """examples:
  offheap mtrace 4711
  offheap attach 4711 --exact --duration 30s -o app.offheap
  offheap export app.offheap --format mtrace-summary -o -
  offheap import mtrace.log           a log of MALLOC_TRACE
"""
    parser.add_argument("process", metavar="PID|NAME", help="a PID, or part of a main class or jar name")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.mtrace/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.inspect import discovery
    from offheap.inspect.mtrace_support import mtrace_support

    sweep()
    found = mtrace_support(discovery.resolve(args.process))
    if args.json:
        from offheap.report.json import other_tools, schemas

        instead = _instead(found)
        print(
            schemas.dumps(
                other_tools.mtrace(found.pid, found.glibc, found.ignored, found.preloaded, found.log, instead)
            )
        )
        return 0
    for line in _answer(found):
        print(printable(line))
    return 0


def _answer(found: MtraceSupport) -> Iterator[str]:
    version = ".".join(map(str, found.glibc)) if found.glibc else ""
    has = f"PID {found.pid} has glibc {version}" if version else f"PID {found.pid} has no glibc that is known"
    if found.ignored:
        yield f"{has}: since 2.34 mtrace() does nothing unless libc_malloc_debug.so.0 was preloaded"
    elif found.preloaded or found.glibc:
        log = f"to {found.log}" if found.log else "only if MALLOC_TRACE was set, which it is not"
        debug = " and libc_malloc_debug" if found.preloaded else ""
        yield f"{has}{debug}: mtrace(), once called, writes {log}"
    else:
        yield f"{has}: mtrace() is glibc's own"
    if found.jvm:
        yield "every block with its callers, Java's too, without a restart:"
    else:
        yield "every block with its callers, from the start of the program:"
    yield from (f"  {command}" for command in _instead(found))


def _instead(found: MtraceSupport) -> list[str]:
    """The commands that record every block without mtrace, and show what is unfreed by caller."""
    record = (
        f"offheap attach {found.pid} --exact --duration 30s -o app.offheap"
        if found.jvm
        else "offheap run --exact -o app.offheap -- COMMAND"
    )
    return [record, "offheap export app.offheap --format mtrace-summary -o -"]
