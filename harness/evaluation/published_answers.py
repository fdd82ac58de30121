"""The answers of the commands about one recording of a published program, and whether they are true."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.evaluation.published_programs import Program, Twin
from harness.measuring.rates import format_rate

UNDECIDED = "cannot tell yet"
NOTHING = "stable"
# The verdicts of `where` that an allocation site may be behind.
NATIVE = ("native-malloc", "native-mmap", "direct-buffers")
# The outcome of `check` for each conclusion of `leaks`.
GATES = {"leak": "failed", "no leak": "passed", "growing": "cannot tell", UNDECIDED: "cannot tell"}
# Bytes a second by which the JVM's own structures grow in any busy program, unseen in any site.
_UNNOTICED = 20e3


@dataclass(frozen=True)
class Answers:
    """The output of the commands about one recording.

    leaks, check  JSON
    text          of `offheap leaks`
    ticket        of `offheap report --format md`
    where         JSON of `offheap where RECORDING`
    watched       JSON of `offheap where PID --watch` over the same time; None where it was not asked
    """

    leaks: dict[str, Any]
    check: dict[str, Any]
    text: str
    ticket: str
    where: dict[str, Any]
    watched: dict[str, Any] | None = None


@dataclass(frozen=True)
class Judged:
    """The answers compared with the truth.

    verdict         of the leak's site; "" where no suspect has its frames, or nothing leaks
    rank            of it among the suspects, 0 without
    headline        whether the first sentence names a method of its package, or an agent's function
    shown           whether the text names the very method, be it in a stack
    growth          of its sites with that verdict together, bytes a second: estimate, low, high
    accused         the names of other sites that are called a leak
    conclusion      of `offheap leaks`
    excluded        bytes a second that it excludes, of one more leak; None: it excludes nothing
    where           "right", "undecided" or "wrong", with the verdict, of each way that was asked
    contradictions  of two commands, or of one with itself, in words
    """

    verdict: str
    rank: int
    headline: bool
    shown: bool
    growth: tuple[float, float, float] | None
    accused: tuple[str, ...]
    conclusion: str
    excluded: float | None
    where: Mapping[str, tuple[str, str]]
    contradictions: tuple[str, ...]

    @property
    def found(self) -> bool:
        return self.verdict == "leak" and 1 <= self.rank <= 2


def judge(program: Program, twin: Twin, answers: Answers) -> Judged:
    suspects = answers.leaks["suspects"]
    its = [one for one in suspects if twin == "leak" and _has(one["stack"], program.frame)]
    others = [one for one in suspects if one not in its and one["verdict"] == "leak"]
    words = _flat(answers.text)
    name = shown_name(program.frame)
    worst = its[0]["verdict"] if its else ""
    growing = [one for one in its if one["verdict"] == worst]
    return Judged(
        verdict=worst,
        rank=its[0]["rank"] if its else 0,
        headline=_culprit(program.frame) in answers.leaks["answer"],
        shown=name.replace(" ", "") in words,
        growth=_total([one["growth_bytes_per_second"] for one in growing]) if growing else None,
        accused=tuple(_blamed(one) for one in others),
        conclusion=answers.leaks["power"]["conclusion"],
        excluded=answers.leaks["power"]["bytes_per_second"],
        where=wheres(program, twin, answers),
        contradictions=tuple(contradictions(answers)),
    )


def shown_name(frame: str) -> str:
    """`Class.method` of a Java frame, which no shortening may leave out; a native frame whole."""
    return frame if "::" in frame else ".".join(frame.split(".")[-2:])


def _culprit(frame: str) -> str:
    """What a sentence must name: the application's package, or an agent's function."""
    return frame if "::" in frame else ".".join(frame.split(".")[:-2]) + "."


def _has(stack: Sequence[Mapping[str, Any]], frame: str) -> bool:
    return any(one["name"] == frame or one["name"].startswith(f"{frame}(") for one in stack)


def _flat(text: str) -> str:
    """Without white space: a terminal's line may break anywhere."""
    return re.sub(r"\s+", "", text)


def _blamed(suspect: Mapping[str, Any]) -> str:
    blamed = suspect["blamed"]
    name: str = blamed["name"] if blamed else suspect["stack"][-1]["name"]
    return name


def _total(quantities: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    """The sum of sites that grow together; their intervals' half widths add up as squares."""
    estimate = sum(one["estimate"] for one in quantities)
    below = sum((one["estimate"] - one["low"]) ** 2 for one in quantities) ** 0.5
    above = sum(((one["high"] or one["estimate"]) - one["estimate"]) ** 2 for one in quantities) ** 0.5
    return estimate, estimate - below, estimate + above


def wheres(program: Program, twin: Twin, answers: Answers) -> dict[str, tuple[str, str]]:
    """What `where` said, by how it was asked."""
    asked = {"recording": answers.where, "process": answers.watched}
    return {way: _where(program, twin, said) for way, said in asked.items() if said is not None}


def _where(program: Program, twin: Twin, said: Mapping[str, Any]) -> tuple[str, str]:
    kind: str = said["verdict"]["kind"]
    if kind in program.where[twin]:
        return "right", kind
    # An undecided answer must say how long to watch.
    return ("undecided" if kind == UNDECIDED and said["verdict"].get("needs_seconds") else "wrong"), kind


def contradictions(answers: Answers) -> list[str]:
    """Pairs of answers about one recording that cannot both be true."""
    found = []
    leaks, power = answers.leaks, answers.leaks["power"]
    conclusion, gate = power["conclusion"], answers.check["outcome"]
    if GATES[conclusion] != gate:
        found.append(f"leaks says {conclusion}, check {gate}")
    if _flat(leaks["answer"]) not in _flat(answers.text):
        found.append("the text of leaks does not have its answer")
    if _flat(leaks["answer"]) not in _flat(_plain(answers.ticket)):
        found.append("the ticket has another answer than leaks")
    found += _namesakes(leaks["suspects"])
    for way, where in (("RECORDING", answers.where), ("--watch", answers.watched)):
        if where is not None:
            found += _leaks_and_where(leaks, where, way)
    return found


def _plain(markdown: str) -> str:
    """Without the escapes and entities of the ticket."""
    text = re.sub(r"&#(\d+);", lambda code: chr(int(code[1])), markdown)
    return re.sub(r"\\([\\`*_\[\]<>|~$&#])", r"\1", text)


def _namesakes(suspects: Sequence[Mapping[str, Any]]) -> list[str]:
    """One name with two verdicts among the suspects that are shown without --all."""
    verdicts: dict[str, set[str]] = {}
    for one in suspects:
        if one["verdict"] in ("leak", "growing"):
            verdicts.setdefault(_path(one), set()).add(one["verdict"])
    return [
        f"one call path has the verdicts {' and '.join(sorted(said))}: {name}"
        for name, said in verdicts.items()
        if len(said) > 1
    ]


def _path(suspect: Mapping[str, Any]) -> str:
    """The Java methods of its stack, outermost last: what a person knows it by."""
    names = [frame["name"] for frame in suspect["stack"] if frame["kind"] == "java"]
    return f"{suspect['kind']} {_blamed(suspect)} < {' < '.join(names[:3])}"


def _leaks_and_where(leaks: Mapping[str, Any], where: Mapping[str, Any], way: str) -> list[str]:
    power, verdict = leaks["power"], where["verdict"]
    excluded = (verdict.get("power") or {}).get("bytes_per_second")
    if power["conclusion"] == "no leak" and verdict["kind"] in NATIVE:
        rate = _growth_of(where, verdict["kind"])
        if rate is not None and rate[1] > power["bytes_per_second"] + _UNNOTICED:
            return [
                f"leaks excludes {format_rate(power['bytes_per_second'])}, where {way} says "
                f"{verdict['kind']} with {format_rate(rate[1])} at least"
            ]
    if power["conclusion"] == "leak" and verdict["kind"] == NOTHING and excluded is not None:
        first = leaks["suspects"][0]["growth_bytes_per_second"]
        if first["low"] > excluded:
            return [
                f"leaks says {format_rate(first['low'])} at least, where {way} stable, nothing above "
                f"{format_rate(excluded)}"
            ]
    return []


_OWNERS = {
    "native-malloc": ("malloc", "jvm-malloc"),
    "native-mmap": ("anonymous",),
    "direct-buffers": ("direct-buffers",),
}


def _growth_of(where: Mapping[str, Any], kind: str) -> tuple[float, float, float] | None:
    growths = [
        one["growth_bytes_per_second"]
        for one in where["owners"]
        if one["owner"] in _OWNERS[kind] and one.get("growth_bytes_per_second")
    ]
    return _total(growths) if growths else None
