"""`offheap push`: sends a recording to a server of profiles."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.errors import UserError
from offheap.quantities import parse_duration, parse_size

if TYPE_CHECKING:
    from offheap.push.destination import Destination, Kind, Series
    from offheap.push.sender import Sender
    from offheap.recording.model import Recording

_SPOOL_BYTES = "64MiB"
_LABEL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([^,{}\"]*)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send the live memory of a recording to a profile server: Grafana Pyroscope, Parca, or an "
        "OpenTelemetry collector. The recorded program does not depend on the server."
    )
    parser.epilog = """examples:
  offheap push app.offheap --pyroscope http://localhost:4040
  offheap push app.offheap --parca https://parca.example.com --headers auth.txt
  offheap push app.offheap --otlp https://collector:4318 --every 60s
"""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, also while it grows")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--pyroscope", metavar="URL", help="Grafana Pyroscope")
    where.add_argument("--parca", metavar="URL", help="Parca")
    where.add_argument("--otlp", metavar="URL", help="an OpenTelemetry collector, by HTTP")
    parser.add_argument(
        "--every", type=_duration, metavar="TIME", help="send a profile each TIME until the recording ends"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="the program's name in the server (default: its main class or jar)"
    )
    parser.add_argument(
        "--label",
        type=_label,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a label of the profiles; may be given several times",
    )
    parser.add_argument(
        "--headers",
        type=Path,
        metavar="FILE",
        help="a file of headers to send, `Name: value` a line, that only its owner may read",
    )
    parser.add_argument(
        "--ca", type=Path, metavar="FILE", help="certificates of the authorities to trust (PEM)"
    )
    parser.add_argument(
        "--spool",
        type=Path,
        metavar="DIR",
        help="the folder of profiles that wait for the server (default: RECORDING.push)",
    )
    parser.add_argument(
        "--spool-limit",
        type=_size,
        default=parse_size(_SPOOL_BYTES),
        metavar="SIZE",
        help=f"the most bytes that wait; beyond it the oldest profiles are lost (default: {_SPOOL_BYTES})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON at the end (schema offheap.push/1)")


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if seconds < 1:
        raise argparse.ArgumentTypeError("must be 1s or more")
    return seconds


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as env=prod")
    return found[1], found[2]


def run(args: argparse.Namespace) -> int:
    from offheap.cli.load import read
    from offheap.push.delivery import Away
    from offheap.push.sender import follow

    target = _destination(args)
    recording = read(args.recording)
    sender = _sender(args, target, recording)
    if args.every is None:
        try:
            sender.once(recording)
        except Away as away:
            raise UserError(str(away), "run the same command again later") from None
        return _said(sender, target, args.json)
    del recording  # frees this one before the next one is read
    try:
        follow(sender, _reader(args.recording), args.every, _say)
    except KeyboardInterrupt:
        _said(sender, target, args.json)
        return 130
    return _said(sender, target, args.json)


def _sender(args: argparse.Namespace, target: Destination, recording: Recording) -> Sender:
    from offheap.push.delivery import Delivery
    from offheap.push.destination import Series
    from offheap.push.sender import Sender
    from offheap.push.spool import Spool

    info = recording.info
    name = args.name or info.program or (info.command_line[0] if info.command_line else f"pid-{info.pid}")
    series = Series(re.sub(r"[{},=\"\s]+", "_", name), dict(args.label))
    folder = args.spool or Path(args.recording.rstrip("/") + ".push")
    return Sender(
        Delivery(target, args.ca),
        _encoder(target.kind, series),
        series,
        Spool(folder, args.spool_limit, f"{target.kind} {target.base}"),
    )


def _destination(args: argparse.Namespace) -> Destination:
    from offheap.push.destination import KINDS, destination
    from offheap.push.headers import headers

    kind = next((kind for kind in KINDS if getattr(args, kind) is not None), None)
    if kind is None:
        raise UserError("no server is given", "give one of --pyroscope, --parca and --otlp URL")
    return destination(kind, getattr(args, kind), headers(args.headers) if args.headers else {})


def _encoder(kind: Kind, series: Series) -> Callable[[Recording], bytes]:
    from offheap.formats.exported.formats import otlp_of_instant, pprof_of_instant

    if kind == "otlp":
        return lambda recording: otlp_of_instant(recording, {"service.name": series.name, **series.labels})
    return pprof_of_instant


def _reader(path: str) -> Callable[[], tuple[Recording, bool]]:
    import gc

    from offheap.cli.load import read

    def now() -> tuple[Recording, bool]:
        gc.collect()  # `read` leaves the collector off, for commands that end
        # The journal is there until the recorder has written the tables.
        goes_on = (Path(path) / "journal").exists() or Path(path).is_file()
        return read(path), goes_on

    return now


def _say(text: str) -> None:
    from offheap.report.text.printable import printable

    print(f"offheap: {printable(text)}", file=sys.stderr, flush=True)


def _said(sender: Sender, target: Destination, as_json: bool) -> int:
    waiting = sum(1 for _ in sender.spool.waiting())
    if as_json:
        from offheap.report.json import other_tools, schemas

        spool = sender.spool
        value = other_tools.pushed(target.kind, sender.sent, waiting, spool.lost, spool.folder)
        print(schemas.dumps(value))
        return 1 if spool.lost else 0
    said = f"{sender.sent} {'profile' if sender.sent == 1 else 'profiles'} sent"
    said += f", {waiting} waiting in {sender.spool.folder}" if waiting else ""
    said += f", {sender.spool.lost} lost" if sender.spool.lost else ""
    _say(said)
    return 1 if sender.spool.lost else 0
