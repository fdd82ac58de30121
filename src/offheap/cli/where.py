"""`offheap where`: every byte of RSS and its owner."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Split the RSS of a running JVM by owner: Java heap, metaspace, code cache, thread stacks, direct "
        "buffers, malloc, libraries, mapped files ...  Needs no probe, no restart and no debugger, and never "
        "stops the process.  It asks the JVM a few cheap questions over its attach mechanism, whose thread "
        "costs the JVM 0.1 to 0.4 MiB the first time."
    )
    parser.epilog = """examples:
  offheap where 4711
  offheap where shop -v                 each thread, file and NMT category
  offheap where 4711 --no-attach        ask the JVM nothing, look at /proc alone
  offheap where 4711 --json | jq '.owners[] | {owner, bytes}'
"""
    parser.add_argument("process", metavar="PID|NAME", help="a PID, or part of a main class or jar name")
    parser.add_argument(
        "-v", "--full", action="store_true", help="show what each owner's memory is made of, by name"
    )
    parser.add_argument(
        "--no-attach", action="store_true", help="do not ask the JVM anything, not even to listen"
    )
    parser.add_argument(
        "--detail",
        action="store_true",
        help="also ask where the collector's tables are: costs the JVM some 5 MiB, once",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.where/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.errors import UserError
    from offheap.jvm import discovery
    from offheap.look import look

    if args.detail and args.no_attach:
        raise UserError("--detail asks the JVM and --no-attach forbids it", "give one of them")
    accounts = look(discovery.resolve(args.process), attach=not args.no_attach, detail=args.detail)
    if args.json:
        from offheap.report import accounts_json
        from offheap.report.json import dumps

        print(dumps(accounts_json.where(accounts)))
        return 0
    from offheap.report import accounts_text, terminal

    accounts_text.print_where(terminal.console(), accounts, full=args.full)
    return 0
