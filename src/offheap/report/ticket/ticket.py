"""A summary fit for a ticket, as a document and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from offheap.analysis.java_heap.conclusion import compared
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks.ticket import MOST_SUSPECTS, Ticket
from offheap.analysis.owners.accounts import TITLES
from offheap.analysis.owners.results import OwnerGrowth
from offheap.analysis.totals.stats import Stats
from offheap.quantities import RateUnit, format_count, format_duration, format_size
from offheap.report.json import schemas
from offheap.report.json.java_heap import java_leaks
from offheap.report.text import wording
from offheap.report.text.java_heap import CLASSES
from offheap.report.ticket.document import Block, CodeText, Facts, Heading, Listing, Paragraph, Table
from offheap.report.ticket.java_heap import java_blocks
from offheap.report.ticket.suspects import STACKS, about, suspects_table

SCHEMA = "offheap.ticket/1"
TITLE = "Native memory: offheap report"


def document(ticket: Ticket, java: JavaHeapReport | None = None) -> list[Block]:
    """The answer first, commands last; fits a screen or two."""
    both = compared(ticket.found.kind, java) if java else ""
    blocks: list[Block] = [
        Heading(TITLE, 1),
        *([Paragraph(both, strong=True)] if both else []),
        Paragraph(ticket.answer, strong=True),
        Facts(_facts(ticket)),
        *([Paragraph(f"{ticket.rss_note}.")] if ticket.rss_note else []),
    ]
    if ticket.shown:
        blocks += [
            Heading("Suspects"),
            suspects_table(ticket.shown, ticket.namesakes, ticket.rate_unit, ticket.others),
        ]
        counts = ", ".join(f"{count} {verdict}" for verdict, count in ticket.verdicts.items())
        blocks.append(Paragraph(f"In brackets: 95 % intervals. All sites: {counts}."))
        for suspect in ticket.shown[:STACKS]:
            blocks += about(suspect)
    if ticket.held:
        rows = [
            (
                wording.size(held.site.live_bytes),
                f"{held.share:.1%}",
                format_count(held.site.live_blocks.estimate),
                CodeText(wording.name(held.blamed)),
            )
            for held in ticket.held
        ]
        blocks += [
            Heading("Where the live malloc blocks come from"),
            Table(("live", "share", "blocks", "site"), rows, frozenset({1, 2})),
        ]
    if java:
        blocks += java_blocks(java)
    if ticket.owners:
        blocks += [Heading("Who holds the RSS"), _owners(ticket.owners, ticket.rate_unit)]
    if ticket.grows:
        why = f"offheap where {ticket.info.path} says why"
        blocks.append(Paragraph(f"What of it grows: {ticket.grows.kind} ({why})."))
    blocks += [
        Heading("What this recording could not see"),
        Facts([("lost", "; ".join(ticket.stats.losses) or "nothing"), *_coverage(ticket.stats)]),
        Heading("Next"),
        Listing(_steps(ticket)),
    ]
    return blocks


def value(ticket: Ticket, java: JavaHeapReport | None = None) -> dict[str, Any]:
    """offheap.ticket/1."""
    first, last = ticket.stats.rss_bytes
    return {
        "schema": SCHEMA,
        "recording": schemas.recording(ticket.info),
        "answer": ticket.answer,
        "rss_note": ticket.rss_note,
        "power": schemas.power(ticket.found),
        "verdicts": schemas.verdicts(ticket.verdicts),
        "rss_bytes": {"first": first, "last": last} if first or last else None,
        "owners": [
            {
                "owner": one.owner,
                "first_bytes": round(one.first_bytes),
                "bytes": round(one.bytes),
                "growth_bytes_per_second": schemas.quantity(one.growth) if one.growth else None,
            }
            for one in ticket.owners
        ],
        "owners_verdict": {"kind": ticket.grows.kind, "why": ticket.grows.why} if ticket.grows else None,
        "limit_bytes": ticket.limit_bytes,
        "seconds_to_limit": schemas.seconds(ticket.seconds_to_limit),
        **schemas.by_kind(ticket.stats.live),
        "suspects": list(schemas.suspects(ticket.suspects)),
        "held": [
            {
                "share": round(held.share, 4),
                "live_bytes": schemas.quantity(held.site.live_bytes),
                "live_blocks": schemas.quantity(held.site.live_blocks),
                "blamed": schemas.frame(held.blamed),
            }
            for held in ticket.held
        ],
        "java_heap": java_leaks(java, CLASSES, MOST_SUSPECTS) if java else None,
        "losses": list(ticket.stats.losses),
        "next": [{"command": step.command, "why": step.why} for step in ticket.steps],
    }


def _facts(ticket: Ticket) -> list[tuple[str, str]]:
    stats, info = ticket.stats, ticket.info
    start = datetime.fromtimestamp(info.start, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    facts = [
        ("process", wording.process(info)),
        ("recorded", f"{start}, {wording.mode(info)}"),
        ("recording", CodeText(info.path)),
        ("live", wording.live(stats.live)),
    ]
    if any(stats.rss_bytes):
        first, last = stats.rss_bytes
        facts.append(("RSS", f"{format_size(first)} at first, {format_size(last)} at last"))
    if ticket.limit_bytes:
        when = ticket.seconds_to_limit
        reached = (
            f", full in {wording.amount(when, format_duration)} at the rate of the leaks" if when else ""
        )
        facts.append(("limit", f"{format_size(ticket.limit_bytes)} of memory{reached}"))
    facts.append(("samples", f"{wording.samples(stats)}; {wording.plural(stats.snapshots, 'snapshot')}"))
    return facts


def _owners(owners: Sequence[OwnerGrowth], unit: RateUnit) -> Table:
    """At the first and the last reading, by owner; growth is what chance does not explain."""
    titles = {str(owner): title for owner, title in TITLES.items()}
    rows = []
    for one in owners:
        if format_size(one.first_bytes) == format_size(one.bytes) == format_size(0):
            continue
        sure = one.growth is not None and (one.growth.low > 0 or one.growth.high < 0)
        rate = wording.rate(one.growth, unit) if sure and one.growth else ""
        name = titles.get(one.owner, one.owner)
        rows.append((name, format_size(one.first_bytes), format_size(one.bytes), rate))
    return Table(("owner", "at first", "at last", "growth (95 %)"), rows, frozenset({1, 2}))


def _coverage(stats: Stats) -> list[tuple[str, str]]:
    return [("not seen", sentence) for sentence in stats.coverage]


def _steps(ticket: Ticket) -> list[str]:
    width = max(len(step.command) for step in ticket.steps)
    return [f"{step.command:<{width}}  # {step.why}" for step in ticket.steps]
