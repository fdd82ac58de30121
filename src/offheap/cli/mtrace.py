"""`offheap mtrace`: what glibc's mtrace() can do in a process, and what finds the same without it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offheap.report.text.printable import printable

if TYPE_CHECKING:
    from offheap.inspect.mtrace_support import MtraceSupport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say whether glibc's mtrace() works in a process (since glibc 2.34 it does nothing unless "
        "libc_malloc_debug.so.0 is preloaded), and the commands that record every block without it.  "
        "Changes nothing in the process."
    )
    parser.epilog = """examples:
  offheap mtrace 4711
  offheap attach 4711 --exact --duration 30s -o app.offheap
  offheap export app.offheap --format mtrace-summary -o -
  offheap import mtrace.log           a log of MALLOC_TRACE
"""
    parser.add_argument("process", metavar="PID|NAME", help="a PID, or part of a main class or jar name")


def run(args: argparse.Namespace) -> int:
    from offheap.inspect import discovery
    from offheap.inspect.mtrace_support import mtrace_support

    for line in _answer(mtrace_support(discovery.resolve(args.process))):
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
        yield f"  offheap attach {found.pid} --exact --duration 30s -o app.offheap"
    else:
        yield "every block with its callers, from the start of the program:"
        yield "  offheap run --exact -o app.offheap -- COMMAND"
    yield "  offheap export app.offheap --format mtrace-summary -o -"
