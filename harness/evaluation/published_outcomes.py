"""The outcomes of the published programs, as lines and as tables."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.evaluation.published_answers import Judged
from harness.evaluation.published_programs import JDKS, Twin
from harness.evaluation.real_jvms import of
from harness.measuring import document
from harness.measuring.rates import format_rate
from offheap.quantities import format_duration

Way = Literal["attach", "run"]
WAYS: tuple[Way, ...] = ("attach", "run")


@dataclass(frozen=True)
class Case:
    """A twin of a program on a JDK, recorded one way; `busy`: while others want both CPUs."""

    program: str
    twin: Twin
    jdk: int
    way: Way
    busy: bool

    def __str__(self) -> str:
        return f"{self.program} {self.twin} {self.jdk} {self.way}{' busy' if self.busy else ''}"


@dataclass(frozen=True)
class Outcome:
    """rate: leaked bytes a second by the program's own count; None if it is unknown."""

    case: Case
    judged: Judged
    rate: float | None

    @property
    def error(self) -> float | None:
        """The error of the growth, as a share of the true rate."""
        if self.rate is None or self.judged.growth is None or not self.judged.found:
            return None
        return abs(self.judged.growth[0] / self.rate - 1)


def describe(outcome: Outcome) -> str:
    """One recording in one line."""
    case, judged = outcome.case, outcome.judged
    said = [judged.conclusion]
    if case.twin == "leak":
        said.append(f"#{judged.rank} {judged.verdict}" if judged.rank else "its frames are in no suspect")
        said.append("headline" if judged.headline else "shown" if judged.shown else "NOT SHOWN")
        if judged.growth:
            said.append(
                format_rate(judged.growth[0]) + (f" of {format_rate(outcome.rate)}" if outcome.rate else "")
            )
    said += [f"ACCUSED {name}" for name in judged.accused]
    said += [
        f"where {way} {kind}{'' if how == 'right' else ' ' + how.upper()}"
        for way, (how, kind) in judged.where.items()
    ]
    said += [f"CONTRADICTION {words}" for words in judged.contradictions]
    return f"{case}: {', '.join(said)}"


@dataclass
class Tally:
    """The outcomes of one row."""

    name: str
    outcomes: list[Outcome] = field(default_factory=list)

    def of_twin(self, twin: Twin) -> list[Judged]:
        return [one.judged for one in self.outcomes if one.case.twin == twin]

    def row(self) -> list[str]:
        leaks, well = self.of_twin("leak"), self.of_twin("healthy")
        both = [*leaks, *well]
        errors = [one.error for one in self.outcomes if one.error is not None]
        where = [how for one in both for how, _ in one.where.values()]
        return [
            self.name,
            of(sum(one.found for one in leaks), len(leaks)),
            of(sum(one.verdict == "growing" for one in leaks), len(leaks)),
            of(sum(one.rank == 1 for one in leaks), len(leaks)),
            of(sum(one.headline for one in leaks), len(leaks)),
            of(sum(one.shown for one in leaks), len(leaks)),
            f"{statistics.median(errors):.0%}" if errors else "-",
            of(sum(bool(one.accused) for one in leaks), len(leaks)),
            of(sum(bool(one.accused) for one in well), len(well)),
            of(sum(one.conclusion == "no leak" for one in well), len(well)),
            of(where.count("right"), len(where)),
            str(where.count("wrong")),
            str(sum(len(one.contradictions) for one in both)),
        ]


HEADER = (
    "",
    "called a leak, first or second",
    "growing",
    "first",
    "application frame in the first sentence",
    "and anywhere in the text",
    "growth error (median)",
    "other sites accused",
    "healthy twins accused",
    "healthy: no leak above X",
    "where right",
    "where wrong",
    "contradictions",
)


def report(
    outcomes: Sequence[Outcome], troubles: Sequence[str], seconds: float, seed: int, ran: str
) -> list[str]:
    """The section of the document; `ran` is the command that measured."""
    groups: dict[str, Callable[[Case], bool]] = {
        "attached": lambda case: case.way == "attach",
        "from the start": lambda case: case.way == "run",
        "alone": lambda case: not case.busy,
        "both CPUs busy": lambda case: case.busy,
        **{f"JDK {jdk}": functools.partial(_on, jdk) for jdk in JDKS},
    }
    by_group = [Tally(name, [one for one in outcomes if has(one.case)]) for name, has in groups.items()]
    names = sorted({one.case.program for one in outcomes})
    by_program = [Tally(name, [one for one in outcomes if one.case.program == name]) for name in names]
    everything = Tally("**all**", list(outcomes))
    lines = [
        "## Published libraries",
        "",
        f"{ran}, {document.machine()}, {document.load()}; {len(outcomes)} recordings of "
        f"{format_duration(seconds)}, seed {seed}.",
        "",
        "Programs around published libraries ([examples/published](../examples/published/README.md)),",
        "each in two twins under the same load, one of which leaks. Default options.",
        "",
        *document.table(HEADER, [tally.row() for tally in (everything, *by_group) if tally.outcomes]),
        "",
        "By program:",
        "",
        *document.table(HEADER, [tally.row() for tally in by_program]),
    ]
    wrong = [describe(one) for one in outcomes if _wrong(one)]
    if wrong:
        lines += ["", "Not as it should be:", "", *(f"- {line}" for line in sorted(wrong))]
    if troubles:
        lines += ["", "Not run to the end:", "", *(f"- {line}" for line in sorted(troubles))]
    return lines


def _on(jdk: int, case: Case) -> bool:
    return case.jdk == jdk


def _wrong(outcome: Outcome) -> bool:
    judged = outcome.judged
    missed = outcome.case.twin == "leak" and not (judged.found and judged.shown)
    where = any(how == "wrong" for how, _ in judged.where.values())
    return bool(missed or judged.accused or judged.contradictions or where)
