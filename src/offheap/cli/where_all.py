"""`offheap where --all` and `--serve`: the owners of several JVMs, once or for Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offheap.errors import UserError

if TYPE_CHECKING:
    from offheap.analysis.owners.accounts import JVMAccounts

LOOPBACK = "127.0.0.1"


def address(text: str) -> tuple[str, int]:
    """Argument type of --serve: `:9404`, `9404` or `HOST:9404`; without a host it is loopback."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as :9404 or 0.0.0.0:9404")
    return host.strip("[]") or LOOPBACK, int(port)


def run(args: argparse.Namespace) -> int:
    if args.watch is not None:
        raise UserError("--watch is for one process", "leave out --all or --serve")
    from offheap.probe.live_files import stale_files

    stale_files.sweep()
    return _serve(args) if args.serve else _print(args)


def _inspected(args: argparse.Namespace) -> Iterator[JVMAccounts]:
    from offheap.inspect import discovery
    from offheap.inspect.all_jvms import inspect_all_jvms

    # Resolved each time: after a restart the name is the same, the PID is not.
    pid = discovery.resolve(args.process) if args.process else None
    return inspect_all_jvms(pid, attach=not args.no_attach, detail=args.detail)


def _print(args: argparse.Namespace) -> int:
    from offheap.report.json.where_all import where_all_json
    from offheap.report.terminal.process import where_all

    accounts = list(_inspected(args))
    if args.json:
        from offheap.report.json.schemas import dumps

        print(dumps(where_all_json(accounts)))
    elif accounts:
        from offheap.report.terminal.console import console

        where_all.print_all(console(), accounts)
    else:
        print("no JVM runs here")
    return 0


def _serve(args: argparse.Namespace) -> int:
    try:
        from offheap.report.metrics import openmetrics
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise UserError(
            "--serve needs Prometheus's client library", "pip install 'offheap[metrics]'"
        ) from None

    host, port = args.serve
    if args.process:
        list(_inspected(args))  # an unknown name is an error now, not at the first scrape
    server = openmetrics.serve(host, port, lambda: _inspected(args))
    shown = f"[{host}]" if ":" in host else host
    print(f"serving OpenMetrics on http://{shown}:{server.server_port}/metrics; Ctrl-C ends it", flush=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.close()
