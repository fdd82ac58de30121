"""A pytest plugin: how many tests were skipped, and what to do so that they run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest

from harness import needs

_REASON = re.compile(r"needs (?P<what>.*): (?P<remedy>.*)", re.DOTALL)


def summary(reasons: Iterable[str]) -> list[str]:
    """Lines, the remedy of most tests first; packages are one command."""
    packages: dict[str, None] = {}
    counts: Counter[str] = Counter()
    for reason in reasons:
        found = _REASON.fullmatch(reason.removeprefix("Skipped: "))
        remedy = found["remedy"] if found else reason
        if remedy.startswith(needs.APT):
            packages.update(dict.fromkeys(remedy.removeprefix(needs.APT).split(", or ")[0].split()))
            remedy = needs.APT
        counts[remedy] += 1
    command = needs.APT + " ".join(sorted(packages))
    return [
        f"{count:5}  {command if remedy == needs.APT else remedy}" for remedy, count in counts.most_common()
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    if not reports:
        return
    terminalreporter.section(f"{len(reports)} skipped; to run them")
    # A skip's longrepr is (file, line, reason).
    for line in summary(report.longrepr[2] for report in reports):
        terminalreporter.line(line)
