"""What is sampled, and at what cost: the same options in every command that records."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from offheap.errors import UserError
from offheap.probe import options
from offheap.quantities import format_share, format_size, parse_share, parse_size

if TYPE_CHECKING:
    from offheap.probe.sampling import Sampling

_LARGEST = 1 << 44  # bytes: the probe reads no larger number (probe/options.c)
_LARGEST_JAVA_INTERVAL = 1 << 30  # bytes: JVMTI takes a signed number of 32 bits


def add_arguments(parser: argparse._ActionsContainer, condition: str = "") -> None:
    """`condition` goes before each help text."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--interval",
        type=parse_size,
        metavar="SIZE",
        help=f"{condition}fixed mean bytes between samples, such as 512KiB; "
        "with --budget, the smallest interval (default 32KiB)",
    )
    size.add_argument("--exact", action="store_true", help=f"{condition}record every block")
    parser.add_argument(
        "--budget",
        type=parse_share,
        metavar="PERCENT",
        help=f"{condition}CPU that sampling and the recorder may use: a share of what the process uses, or "
        "of one CPU where it uses less (default 1%%); intervals adapt to it",
    )
    parser.add_argument(
        "--java-heap",
        action="store_true",
        help=f"{condition}sample Java allocations, too, and follow each object until the collector frees it; "
        "within the same budget (HotSpot, JDK 11 and later)",
    )
    parser.add_argument(
        "--java-heap-interval",
        type=parse_size,
        metavar="SIZE",
        help=f"{condition}--java-heap with fixed mean bytes between samples of Java objects",
    )
    parser.add_argument(
        "--memory",
        type=parse_size,
        metavar="SIZE",
        help=f"{condition}most memory that the probe may take (default 64MiB, with --exact 320MiB; and half "
        "of what is left below the memory limit of the process's container)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help=f"{condition}record although the memory limit leaves too little room",
    )


def words(args: argparse.Namespace) -> str:
    """The probe's options (probe/options.h) for all of them."""
    return ",".join([_sampling(args), *beside(args)])


def beside(args: argparse.Namespace) -> list[str]:
    """Those of all but the sampling of native memory."""
    return _java_heap(args) + _memory(args)


def _java_heap(args: argparse.Namespace) -> list[str]:
    if args.java_heap_interval == 0:
        raise UserError("--java-heap-interval must be greater than 0", "give a size such as 512KiB")
    _at_most("--java-heap-interval", args.java_heap_interval, _LARGEST_JAVA_INTERVAL, "512KiB")
    if args.java_heap_interval is not None:
        return ["java", f"java-interval={args.java_heap_interval}"]
    return ["java"] if args.java_heap else []


def _memory(args: argparse.Namespace) -> list[str]:
    if args.memory == 0:
        raise UserError("--memory must be greater than 0", "leave it out, or give a size such as 64MiB")
    _at_most("--memory", args.memory, _LARGEST, "64MiB")
    if args.memory is None:
        return ["force"] if args.force else []
    from offheap.probe.admission import PROBE_BYTES

    if args.memory < PROBE_BYTES:
        raise UserError(
            f"--memory {format_size(args.memory)} is too little: the probe needs {format_size(PROBE_BYTES)}",
            "leave it out, or give a size such as 64MiB",
        )
    return [f"memory={args.memory}", *(["force"] if args.force else [])]


def _at_most(option: str, size: int | None, most: int, example: str) -> None:
    if size is not None and size > most:
        raise UserError(f"{option} is above {format_size(most)}", f"give a size such as {example}")


def allow_reading(words: str) -> None:
    """Lets this command read as much as a probe with these options may hold."""
    from offheap.recording import allowance

    allowance.bear(options.stated_memory(words))


def _sampling(args: argparse.Namespace) -> str:
    if args.interval == 0 and not args.exact:
        raise UserError("--interval must be greater than 0", "use --exact to record every block")
    _at_most("--interval", args.interval, _LARGEST, "512KiB")
    if args.exact:
        if args.budget is not None:
            raise UserError(
                "--exact records every block at any cost, so --budget has no effect",
                "leave one of them out",
            )
        return "exact"
    interval = [] if args.interval is None else [f"interval={args.interval}"]
    budget = [] if args.budget is None else [f"budget={format_share(args.budget)}"]
    return ",".join(interval + budget) or options.DEFAULT


def stated(args: argparse.Namespace) -> bool:
    """Whether any option says what is sampled."""
    from offheap.probe.sampling import Sampling

    return asked(args) != Sampling()


def asked(args: argparse.Namespace) -> Sampling:
    """The sampling that the user requests."""
    from offheap.probe.sampling import Sampling

    return Sampling(
        None if args.exact else args.interval,
        args.budget,
        args.exact,
        args.java_heap or args.java_heap_interval is not None,
        args.java_heap_interval,
    )
