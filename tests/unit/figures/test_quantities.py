"""Sizes and durations: every spelling that the options accept, and the printed form."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measuring.rates import format_rate
from offheap.quantities import (
    format_count,
    format_duration,
    format_share,
    format_size,
    parse_duration,
    parse_share,
    parse_size,
    rate_unit,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("512KiB", 512 * 1024),
        ("512k", 512 * 1024),
        ("512K", 512 * 1024),
        ("512kb", 512 * 1024),
        ("1.5m", 3 * 512 * 1024),
        (" 2 GiB ", 2 * 1024**3),
        ("7B", 7),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "k", "-1", "1x", "1 2", "0x10", "nan", "inf", "1e6", "1kk", "9e99", "٣"]
)
def test_a_bad_size_says_what_is_accepted(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="512KiB"):
        parse_size(text)


def test_a_size_beyond_the_address_space_is_refused() -> None:
    with pytest.raises(ValueError, match="8 EiB"):
        parse_size("9000000p")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("0.5", 0.5),
        ("500ms", 0.5),
        ("2m", 120),
        ("2min", 120),
        ("1h30m", 5400),
        ("1d", 86400),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "-1s", "1y", "1s,2m", "abc", "1h 30x", "nan", "infinity", "9" * 400]
)
def test_a_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (1023, "1023 B"),
        (1023.6, "1.0 KiB"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (340 * 1024**2, "340 MiB"),
        (1024**2 - 1, "1.0 MiB"),
        (-2048, "-2.0 KiB"),
        (-0.2, "0 B"),
    ],
)
def test_sizes_are_written(size: float, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"),
        (12.5, "12.5 s"),
        (59.99, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273600, "3 d 4 h"),
        (-1, "0.00 s"),
    ],
)
def test_durations_are_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_rates_choose_their_unit() -> None:
    assert format_rate(2 * 1024**2) == "2.0 MiB/s"
    assert format_rate(20 * 1024 / 60 * 10) == "200 KiB/min"
    assert format_rate(1024) == "60.0 KiB/min"
    assert format_rate(10) == "35.2 KiB/h"
    assert format_rate(0) == "0 B/h"


def test_counts_are_grouped() -> None:
    assert format_count(12345.4) == "12,345"
    assert format_count(1_234_567) == "1.2 M"


@given(st.integers(0, 2**62))
def test_a_written_size_reads_back_within_its_three_figures(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.06, abs=0.5)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    for parse in (parse_size, parse_duration):
        refusal = ""
        try:
            value = parse(text)
        except argparse.ArgumentTypeError as error:
            refusal = str(error)
        assert refusal or value >= 0


@given(st.floats(0, 1e9))
def test_every_duration_is_written_without_a_sign(seconds: float) -> None:
    assert not format_duration(seconds).startswith("-")


@pytest.mark.parametrize(
    ("text", "share"), [("1%", 0.01), (" 0.25% ", 0.0025), ("100%", 1.0), (".5%", 0.005), ("0.0001%", 1e-6)]
)
def test_shares_are_read(text: str, share: float) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize("text", ["", "%", "1", "0.01", "1%%", "-1%", "1e2%", "100.1%", "0%", "0.00001%"])
def test_a_bad_share_says_what_is_accepted(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"%"):
        parse_share(text)


@given(st.integers(1, 1_000_000))
def test_a_share_is_written_as_it_is_read(millionths: int) -> None:
    assert parse_share(format_share(millionths / 1e6)) == millionths / 1e6


def test_one_unit_serves_all_rates_of_a_page() -> None:
    unit = rate_unit([1.5 * 2**20, 96.3 * 1024, 20.0, float("inf")])
    assert [unit.format(rate) for rate in (1.5 * 2**20, 96.3 * 1024, 20.0, 0.2, -0.2, 0.0)] == [
        "1.5 MiB/s",
        "96.3 KiB/s",
        "20 B/s",
        "< 1 B/s",
        "> -1 B/s",
        "0 B/s",
    ]
    assert rate_unit([90 * 1024.0]).format(90 * 1024.0) == "5.3 MiB/min"
    assert rate_unit([]).name == "h"


@given(st.lists(st.floats(-1e15, 1e15), min_size=1))
def test_the_largest_rate_reads_as_it_would_alone(rates: list[float]) -> None:
    largest = max(rates, key=abs)
    assert rate_unit(rates).format(largest) == format_rate(largest)
