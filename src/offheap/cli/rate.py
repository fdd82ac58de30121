"""How much is recorded: `--interval`, `--budget` and `--exact`, the same in every command that records."""

from __future__ import annotations

import argparse

from offheap.errors import UserError
from offheap.quantities import format_share, parse_share, parse_size

DEFAULT = "budget=1%"  # as the probe's own (probe/options.c)


def add_arguments(parser: argparse._ActionsContainer, condition: str = "") -> None:
    """`condition` goes before each help text."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--interval",
        type=parse_size,
        metavar="SIZE",
        help=f"{condition}fixed mean bytes between samples, such as 512KiB; "
        "with --budget the least (32KiB if not given)",
    )
    size.add_argument("--exact", action="store_true", help=f"{condition}record every block")
    parser.add_argument(
        "--budget",
        type=parse_share,
        metavar="PERCENT",
        help=f"{condition}CPU that sampling may take of the process's (default 1%%): "
        "the intervals move, to be as fine as that allows",
    )


def words(args: argparse.Namespace) -> str:
    """The probe's options (probe/options.h) for the three."""
    if args.interval == 0 and not args.exact:
        raise UserError("--interval 0 means nothing", "use --exact to record every block")
    if args.exact:
        if args.budget is not None:
            raise UserError(
                "--exact records every block, whatever it costs: there is nothing for --budget to choose",
                "leave one of them out",
            )
        return "exact"
    interval = [] if args.interval is None else [f"interval={args.interval}"]
    budget = [] if args.budget is None else [f"budget={format_share(args.budget)}"]
    return ",".join(interval + budget) or DEFAULT
