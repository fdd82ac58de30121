"""The outcome of a gate: at most ten lines for people, and JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from offheap.analysis.gate.results import Gate, Outcome
from offheap.analysis.leaks.answer import headline
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.stacks import frames
from offheap.analysis.stacks.blame import entry, position, short
from offheap.analysis.stacks.folding import folds
from offheap.quantities import PER_MINUTE, format_size
from offheap.report.json import schemas
from offheap.report.text.printable import place, printable

LINES = 10

_STYLES: dict[Outcome, str] = {"passed": "bold green", "failed": "bold red", "cannot tell": "bold yellow"}


def print_gate(out: Console, gate: Gate) -> None:
    """The outcome, each condition's sentence, and of a failure the worst site with its callers."""
    head = Text(gate.outcome.upper(), _STYLES[gate.outcome])
    head.append(f"  {printable(gate.info.path)}", "not bold default")
    lines = [head]
    for check in gate.checks:
        line = Text(f"  {check.outcome:<12}", _STYLES[check.outcome])
        line.append(f"{check.name}: {printable(check.why)}", "not bold default")
        lines.append(line)
    worst = next((check for check in gate.checks if check.suspects and check.outcome == gate.outcome), None)
    if worst is not None and gate.outcome != "passed":
        first, rest = worst.suspects[0], len(worst.suspects) - 1
        more = 1 if rest else 0
        lines += [Text(f"  {line}") for line in site_lines(first, LINES - len(lines) - more)]
        if rest:
            sites = "1 more site" if rest == 1 else f"{rest} more sites"
            lines.append(Text(f"  and {sites}: offheap leaks {printable(gate.info.path)}", "dim"))
    for line in lines:
        out.print(line)


def site_lines(suspect: Suspect, most: int) -> list[str]:
    """A site in words, then the frames that matter, innermost first: what was called, the one to look at and
    its callers."""
    confidence = f", confidence {suspect.confidence:.0%}" if suspect.confidence else ""
    growth = suspect.growth_bytes_per_second
    grows = f"grows by {PER_MINUTE.format(growth.estimate)}, " if growth.low > 0 else ""
    live = format_size(suspect.site.live_bytes.estimate)
    lines = [f"{suspect.verdict}{confidence}: {grows}{live} live"]
    stack = suspect.site.stack or (suspect.blamed,)  # its stack was lost: "no stack"
    marked = position(stack, suspect.blamed) or 0
    called = entry(stack, suspect.blamed)
    inside = min(frames.allocating(stack), marked) if called is None else called
    left_out = {index for fold in folds(stack, suspect.blamed) for index in range(fold.start, fold.stop)}
    outside = [index for index in range(marked + 1, len(stack)) if index not in left_out]
    chosen = sorted({inside, marked, *outside})[: most - 1]
    for index in chosen:
        where = printable(place(stack[index]))
        mark = ">" if index == marked else " "
        lines.append(f"{mark} {stack[index].kind:<7} {printable(short(stack[index]))}  {where}".rstrip())
    return lines


def value(gates: list[Gate], outcome: Outcome, unused: list[str]) -> dict[str, Any]:
    """offheap.check/1."""
    return {
        "schema": "offheap.check/1",
        "outcome": outcome,
        "recordings": [
            {
                "recording": schemas.recording(gate.info),
                "outcome": gate.outcome,
                "power": schemas.power(gate.found),
                "ignored_sites": gate.ignored,
                "checks": [
                    {
                        "name": check.name,
                        "outcome": check.outcome,
                        "why": check.why,
                        "sites": [
                            {
                                "verdict": suspect.verdict,
                                "confidence": round(suspect.confidence, 3),
                                "live_bytes": schemas.quantity(suspect.site.live_bytes),
                                "growth_bytes_per_second": schemas.quantity(
                                    suspect.growth_bytes_per_second, 3
                                ),
                                "headline": headline(suspect),
                                "blamed": schemas.frame(suspect.blamed),
                                "stack": schemas.stack(suspect.site),
                            }
                            for suspect in check.suspects
                        ],
                    }
                    for check in gate.checks
                ],
            }
            for gate in gates
        ],
        "unused_suppressions": unused,
    }
