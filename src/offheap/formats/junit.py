"""JUnit XML, as Jenkins, GitLab and most CI systems read it: a suite a recording, a test case a condition.

A failed condition is a failure; a condition that cannot be told is an error, which CI systems also show in
red.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

from offheap.analysis.gate.results import Check, Gate
from offheap.report.text.output import put_bytes
from offheap.report.text.printable import printable
from offheap.report.text.site_lines import site_lines

_SITES, _FRAMES = 10, 40


def write(gates: Sequence[Gate], path: Path) -> None:
    """Writes the file; UserError when it cannot be written."""
    put_bytes(path, document(gates), "--junit")


def document(gates: Sequence[Gate]) -> bytes:
    """The XML, in UTF-8.  Names may hold what XML cannot: it is escaped as at a terminal."""
    every = [check for gate in gates for check in gate.checks]
    root = ElementTree.Element("testsuites", {"name": "offheap", **_counts(every)})
    for gate in gates:
        info = gate.info
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            {
                "name": printable(f"offheap {info.path}"),
                "timestamp": datetime.fromtimestamp(info.start, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S"),
                "time": f"{info.duration_seconds:.3f}",
                **_counts(gate.checks),
            },
        )
        for check in gate.checks:
            case = ElementTree.SubElement(
                suite, "testcase", classname="offheap.check", name=check.name, time="0"
            )
            if check.outcome != "passed":
                tag, kind = ("failure", "leak") if check.outcome == "failed" else ("error", "cannot-tell")
                bad = ElementTree.SubElement(case, tag, type=kind, message=printable(check.why))
                bad.text = _details(check)
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks]
    return {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("cannot tell")),
        "skipped": "0",
    }


def _details(check: Check) -> str:
    sites = ["\n".join(site_lines(suspect, _FRAMES)) for suspect in check.suspects[:_SITES]]
    if len(check.suspects) > _SITES:
        sites.append(f"and {len(check.suspects) - _SITES} more sites")
    return "\n\n".join([printable(check.why), *sites])
