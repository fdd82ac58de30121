"""Sizes and times, read from and written for people.

Parsers are argparse types: a bad value raises `argparse.ArgumentTypeError` (a ValueError),
which names what is accepted.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

# Binary for every spelling: `jcmd`, `-Xmx` and malloc all mean 1024 by "k".
_SIZE_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)
_DURATION_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min|m|h|d)\s*", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*", re.ASCII)
_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LARGEST = 2**63 - 1


class QuantityError(argparse.ArgumentTypeError, ValueError):
    """A text that is not a size or a duration; its message says what is."""


def parse_size(text: str) -> int:
    """Bytes from `4096`, `512KiB`, `512k`, `1.5m`, `2GB`; all units are powers of 1024."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise QuantityError(f"{text!r} is not a size (write 4096, 512KiB, 512k, 1.5m)")
    number, unit = match.groups()
    # Whole numbers stay integers: a float would lose the low bits of a large address-space size.
    scale: int = 1024 ** _SIZE_UNITS[unit.lower()]
    size = int(number) * scale if number.isdigit() else round(float(number) * scale)
    if size > _LARGEST:
        raise QuantityError(f"{text!r} is more than 8 EiB")
    return size


def parse_duration(text: str) -> float:
    """Seconds from `30`, `30s`, `1.5m`, `2h`, `500ms`, `1h30m`."""
    plain = _NUMBER.fullmatch(text)
    if plain:
        seconds = float(plain.group(1))
    else:
        stripped = text.strip()
        parts = list(_DURATION_PART.finditer(stripped))
        contiguous = parts and "".join(part.group(0) for part in parts) == stripped
        if not contiguous:
            raise QuantityError(f"{text!r} is not a duration (write 30s, 500ms, 1.5m, 2h, 1h30m)")
        seconds = sum(float(part.group(1)) * _DURATION_UNITS[part.group(2).lower()] for part in parts)
    if not math.isfinite(seconds) or seconds > _LARGEST:
        raise QuantityError(f"{text!r} is too long")
    return seconds


def parse_positive_duration(text: str) -> float:
    """The same for how long something shall go on: above zero."""
    if re.fullmatch(r"\s*-\s*\d.*", text):
        raise QuantityError(f"{text!r} is negative (write 30s, 1m30s)")
    seconds = parse_duration(text)
    if seconds <= 0:
        raise QuantityError(f"{text!r} is not above 0 (write 30s, 1m30s)")
    return seconds


def parse_rate(text: str) -> float:
    """Bytes per second from `1MiB/min`, `10k/s`, `2GiB/h`, `500MB/d`."""
    size, slash, unit = text.partition("/")
    seconds = _DURATION_UNITS.get(unit.strip().lower())
    if not slash or seconds is None:
        raise QuantityError(f"{text!r} is not a rate (write 1MiB/min, 10KiB/s, 2GiB/h)")
    return parse_size(size) / seconds


def parse_share(text: str) -> float:
    """A part of the whole from `1%`, `0.25%`: above 0, at most 1, to the millionth."""
    number, percent, rest = text.strip().partition("%")
    if not percent or rest or not _NUMBER.fullmatch(number):
        raise QuantityError(f"{text!r} is not a percentage (write 1%, 0.25%)")
    share = round(float(number) / 100, 6)
    if not 0 < share <= 1:
        raise QuantityError(f"{text!r} is not between 0.0001% and 100%")
    return share


def format_share(share: float) -> str:
    """`1%`, `0.25%`: as `parse_share` reads it, to the millionth."""
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + "%"


def format_size(size: float) -> str:
    """`0 B`, `812 B`, `1.5 MiB`, `12.0 MiB`, `340 MiB`: three figures, powers of 1024; keeps the sign."""
    if not math.isfinite(size):
        return "unbounded" if size > 0 else "unknown"
    sign, value = ("-" if size < 0 else ""), abs(size)
    prefix = 0
    # 1023.6 rounds to "1024": go up a unit before that shows.
    while prefix < len(_PREFIXES) - 1 and round(value) >= 1024:
        value /= 1024
        prefix += 1
    figures = f"{value:.1f}" if prefix and value < 99.95 else f"{value:.0f}"
    if not figures.strip("0."):
        sign = ""
    return f"{sign}{figures} {_PREFIXES[prefix]}"


def format_count(count: float) -> str:
    """`0`, `812`, `12,345`, `1.2 M` blocks or samples; no unit."""
    if not math.isfinite(count):
        return "unbounded" if count > 0 else "unknown"
    if abs(count) >= 999_950:
        return f"{count / 1e6:,.1f} M"
    return f"{round(count):,}"


def format_duration(seconds: float) -> str:
    """`0.25 s`, `12.5 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`; never negative."""
    if not math.isfinite(seconds):
        return "unknown"
    seconds = max(seconds, 0.0)
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, name, smaller_size, smaller_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            large, small = divmod(whole // smaller_size, size // smaller_size)
            return f"{large} {name} {small} {smaller_name}" if small else f"{large} {name}"
    return f"{whole} s"


@dataclass(frozen=True, slots=True)
class RateUnit:
    """The unit of time that all rates of a page or a table have, so that they compare at a glance."""

    seconds: int
    name: str

    def format(self, bytes_per_second: float) -> str:
        """`1.2 MiB/s`, `14.0 KiB/min`; what rounds to nothing and is not reads `< 1 B/s`."""
        amount = bytes_per_second * self.seconds
        if 0 < abs(amount) < 0.5:
            return f"{'> -' if amount < 0 else '< '}1 B/{self.name}"
        return f"{format_size(amount)}/{self.name}"


PER_SECOND = RateUnit(1, "s")
PER_MINUTE = RateUnit(60, "min")
PER_HOUR = RateUnit(3600, "h")


def rate_unit(rates: Iterable[float]) -> RateUnit:
    """The unit in which the largest of these reads best, in bytes per second; unbounded ones do not count."""
    largest = max((abs(rate) for rate in rates if math.isfinite(rate)), default=0.0)
    if largest >= 100 * 1024:
        return PER_SECOND
    return PER_MINUTE if largest * 60 >= 10 * 1024 else PER_HOUR


def round_up_seconds(seconds: float) -> float:
    """A time that people would choose: whole 5 s below a minute, 10 s below two, then minutes."""
    if math.isinf(seconds):
        return seconds
    step = 5.0 if seconds <= 60 else 10.0 if seconds <= 120 else 60.0
    return math.ceil(seconds / step) * step
