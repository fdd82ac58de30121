"""A summary fit for a ticket, as a document and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.ticket import Ticket
from offheap.analysis.owners.accounts import TITLES
from offheap.analysis.owners.results import OwnerGrowth
from offheap.analysis.stacks.blame import position
from offheap.analysis.stacks.folding import folds
from offheap.analysis.totals.stats import Stats
from offheap.quantities import RateUnit, format_count, format_duration, format_size
from offheap.report.json import schemas
from offheap.report.text import wording
from offheap.report.text.namesakes import beside
from offheap.report.text.printable import printable
from offheap.report.ticket.document import Block, Code, Facts, Heading, Listing, Paragraph, Table

SCHEMA = "offheap.ticket/1"
TITLE = "Native memory: offheap report"
_STACKS = 3


def document(ticket: Ticket) -> list[Block]:
    """The answer first, commands last; fits a screen or two."""
    blocks: list[Block] = [
        Heading(TITLE, 1),
        Paragraph(ticket.answer, strong=True),
        Facts(_facts(ticket)),
        *([Paragraph(f"{ticket.rss_note}.")] if ticket.rss_note else []),
    ]
    if ticket.shown:
        blocks += [Heading("Suspects"), _suspects(ticket)]
        counts = ", ".join(f"{count} {verdict}" for verdict, count in ticket.verdicts.items())
        blocks.append(Paragraph(f"In brackets: 95 % intervals. All sites: {counts}."))
        for suspect in ticket.shown[:_STACKS]:
            blocks += [
                Heading(f"{suspect.rank}. {suspect.verdict}: {wording.name(suspect.blamed)}", 3),
                Paragraph(f"{suspect.why[0].upper()}{suspect.why[1:]}. Live: {wording.held(suspect.site)}."),
                *([Paragraph(f"Next: {suspect.next}.")] if suspect.next else []),
                Listing(stack(suspect)),
            ]
    if ticket.held:
        rows = [
            (
                wording.size(held.site.live_bytes),
                f"{held.share:.1%}",
                format_count(held.site.live_blocks.estimate),
                Code(wording.name(held.blamed)),
            )
            for held in ticket.held
        ]
        blocks += [
            Heading("Where the live malloc blocks come from"),
            Table(("live", "share", "blocks", "site"), rows, frozenset({1, 2})),
        ]
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


def stack(suspect: Suspect) -> list[str]:
    """A line a frame, innermost first, `>` at the one to look at; the middle of a long one is left out."""
    frames = suspect.site.stack
    marked = position(frames, suspect.blamed)
    left_out = {fold.start: fold for fold in folds(frames, suspect.blamed)}
    lines = []
    resume = 0
    for index, frame in enumerate(frames):
        if index in left_out:
            lines.append(f"  {printable(left_out[index].text)}")
            resume = left_out[index].stop
        if index >= resume:
            mark = ">" if index == marked else " "
            text = f"{mark} {frame.kind:<7} {wording.name(frame)}  {wording.where(frame)}".rstrip()
            lines.append(printable(f"{text}  inlined" if frame.inlined else text))
    return lines


def value(ticket: Ticket) -> dict[str, Any]:
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
        "suspects": [schemas.suspect(suspect) for suspect in ticket.suspects],
        "held": [
            {
                "share": round(held.share, 4),
                "live_bytes": schemas.quantity(held.site.live_bytes),
                "live_blocks": schemas.quantity(held.site.live_blocks),
                "blamed": schemas.frame(held.blamed),
            }
            for held in ticket.held
        ],
        "losses": list(ticket.stats.losses),
        "next": [{"command": step.command, "why": step.why} for step in ticket.steps],
    }


def _facts(ticket: Ticket) -> list[tuple[str, str]]:
    stats, info = ticket.stats, ticket.info
    start = datetime.fromtimestamp(info.start, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    facts = [
        ("process", wording.process(info)),
        ("recorded", f"{start}, {wording.mode(info)}"),
        ("recording", Code(info.path)),
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
    joined = f", {info.joined:,} with Java frames" if info.java_version else ""
    facts.append(("samples", f"{stats.samples:,}{joined}; {wording.plural(stats.snapshots, 'snapshot')}"))
    return facts


def _suspects(ticket: Ticket) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            str(suspect.rank),
            suspect.verdict,
            f"{suspect.confidence:.0%}" if round(100 * suspect.confidence) else "",
            wording.rate(suspect.growth_bytes_per_second, ticket.rate_unit),
            wording.size(suspect.site.live_bytes),
            Code(
                ("mmap " if suspect.site.kind == "mmap" else "")
                + f"{wording.name(suspect.blamed)} {beside(marks)}".rstrip()
            ),
        )
        for suspect, marks in zip(ticket.shown, ticket.namesakes, strict=True)
    ]
    if ticket.others > 0:
        rows.append(("", f"and {ticket.others} more", "", "", "", ""))
    return Table(("#", "verdict", "sure", "growth", "live", "site"), rows, frozenset({0, 2}))


def _owners(owners: Sequence[OwnerGrowth], unit: RateUnit) -> Table:
    """At the first and the last look, by owner; growth is what chance does not explain."""
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
