"""offheap.check/1: docs/json.md describes it."""

from __future__ import annotations

from typing import Any

from offheap.analysis.gate.results import Gate, Outcome
from offheap.report.json import schemas


def check_json(gates: list[Gate], outcome: Outcome, unused: list[str]) -> dict[str, Any]:
    """offheap.check/1."""
    return {
        "schema": "offheap.check/1",
        "outcome": outcome,
        "recordings": [
            {
                "recording": schemas.recording(gate.info),
                "outcome": gate.outcome,
                "power": schemas.power(gate.found),
                "java_power": schemas.power(gate.java) if gate.java else None,
                "ignored_sites": gate.ignored,
                "checks": [
                    {
                        "name": check.name,
                        "outcome": check.outcome,
                        "why": check.why,
                        "sites": [
                            {
                                "verdict": suspect.verdict,
                                "kind": suspect.site.kind,
                                "confidence": round(suspect.confidence, 3),
                                "live_bytes": schemas.quantity(suspect.site.live_bytes),
                                "growth_bytes_per_second": schemas.quantity(
                                    suspect.growth_bytes_per_second, 3
                                ),
                                "headline": schemas.marked(suspect, marks),
                                "blamed": schemas.frame(suspect.blamed),
                                "stack": schemas.stack(suspect.site),
                            }
                            for suspect, marks in zip(
                                check.suspects, schemas.namesakes(check.suspects), strict=True
                            )
                        ],
                    }
                    for check in gate.checks
                ],
            }
            for gate in gates
        ],
        "unused_suppressions": unused,
    }
