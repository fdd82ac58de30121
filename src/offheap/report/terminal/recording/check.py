"""The outcome of a gate: at most ten lines for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from offheap.analysis.gate.results import Gate, Outcome
from offheap.report.text.printable import printable
from offheap.report.text.site_lines import site_lines

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
