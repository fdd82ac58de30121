"""What a ticket about a recording says: the answer, the suspects, where the memory is, what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from itertools import islice

import numpy as np

from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.conclusion import Conclusion, conclude
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.owners_with_blocks import owners_with_blocks
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.rss_beside_leak import rss_note
from offheap.analysis.owners.results import OwnerGrowth, WhereVerdict
from offheap.analysis.stacks.blame import blamed
from offheap.analysis.stacks.namesakes import Mark, apart
from offheap.analysis.stacks.packages import Application
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals.stats import Stats, stats
from offheap.analysis.totals.summary import Held, share
from offheap.analysis.totals.totals import live_by_kind
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.quantities import RateUnit
from offheap.recording.model import Info, Recording

MOST_SUSPECTS, MOST_HELD = 10, 5
# Seconds of the next recording: where its length is unknown, and at most.
_NEXT_SECONDS, _LONGEST_SECONDS = 600.0, 3600.0


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what it is good for."""

    command: str
    why: str


@dataclass(frozen=True, slots=True)
class Ticket:
    """A recording in a page.

    rss_note  why a leak holds beside an RSS that did not grow with it; "" where it did
    suspects  those that leak, grow or cannot be told yet, the worst first, at most MOST_SUSPECTS
    verdicts  how many sites got each, listed or not
    held      the sites with most live malloc blocks, at most MOST_HELD; shares are of live malloc bytes
    owners    of RSS, those that hold most first; () where nobody read it
    grows     what of RSS grows, as `offheap where` has it of the recording; None where nobody read it
    rate_unit of every rate in it
    limit_bytes, seconds_to_limit  of memory, None where none is known, and when all leaks together reach
              it, None where nothing leaks
    """

    answer: str
    rss_note: str
    found: Conclusion
    stats: Stats
    verdicts: Counter[Verdict]
    suspects: tuple[Suspect, ...]
    held: tuple[Held, ...]
    owners: tuple[OwnerGrowth, ...]
    grows: WhereVerdict | None
    rate_unit: RateUnit
    limit_bytes: int | None
    seconds_to_limit: Estimate | None
    steps: tuple[Step, ...]

    @property
    def info(self) -> Info:
        return self.stats.info

    @property
    def shown(self) -> tuple[Suspect, ...]:
        """Those that a person should read of: what cannot be told yet only where nothing leaks or grows."""
        grown = tuple(suspect for suspect in self.suspects if suspect.verdict != "cannot tell yet")
        return grown or self.suspects

    @property
    def namesakes(self) -> list[tuple[Mark, ...]]:
        """What tells each that is shown from others of its name."""
        return apart([one.site for one in self.shown], [one.blamed for one in self.shown])

    @property
    def others(self) -> int:
        """Suspects of the same verdicts that are not shown."""
        grown = self.verdicts["leak"] + self.verdicts["growing"]
        return (grown or self.verdicts["cannot tell yet"]) - len(self.shown)


def ticket(recording: Recording, ranked: Ranking | None = None) -> Ticket:
    """The summary of a recording; `ranked` is its `ranking`, if that is known already."""
    ranked = ranked if ranked is not None else ranking(recording)
    counts = ranked.counts()
    suspected = counts["leak"] + counts["growing"]
    found = conclude(ranked)
    owners = owners_with_blocks(ranked.owners, ranked) if ranked.owners else None
    listed = min(suspected + counts["cannot tell yet"], MOST_SUSPECTS)
    return Ticket(
        answer=answer(ranked),
        rss_note=rss_note(recording, ranked),
        found=found,
        stats=stats(recording, ranked.sites.grouping),
        verdicts=counts,
        suspects=tuple(ranked[:listed]),
        held=_held(ranked),
        owners=owners.owners if owners else (),
        grows=owners.verdict if owners else None,
        rate_unit=ranked.rate_unit,
        limit_bytes=ranked.room.limit_bytes if ranked.room else None,
        seconds_to_limit=ranked.seconds_to_limit(),
        steps=_steps(recording.info, counts, found),
    )


def _held(ranked: Ranking) -> tuple[Held, ...]:
    sites = ranked.sites
    live = np.array(sites.live_bytes.estimate)
    # Mappings are address space, touched or not: beside malloc's blocks a reserved heap would hide all.
    live[[number for number in range(len(sites)) if sites.is_mapped(number)]] = 0.0
    largest = (n for n in np.argsort(-live, kind="stable").tolist() if live[n] > 0)
    chosen = [sites.site(number) for number in islice(largest, MOST_HELD)]
    application, whole = Application.of(sites.recording.info), live_by_kind(sites.recording)
    return tuple(Held(site, blamed(site.stack, application), share(site, whole)) for site in chosen)


def _steps(info: Info, counts: Counter[Verdict], found: Conclusion) -> tuple[Step, ...]:
    path = shlex.quote(info.path)
    steps = [
        Step(f"offheap leaks {path} --full --threads", "whole stacks, and the threads that allocated"),
        Step(f"offheap report {path}", "flame graph and time line, in a browser"),
    ]
    if counts["leak"]:
        steps.append(Step(f"offheap check {path} --max-growth 1MiB/min", "a gate for CI, once it is mended"))
    if found.kind in ("growing", "cannot tell yet"):
        seconds = min(found.seconds or _NEXT_SECONDS, _LONGEST_SECONDS)
        again = f"offheap attach {info.pid} --duration {round(seconds)}s"
        still = info.ended in ("recording", "detached")
        steps.append(
            Step(
                again if still else "offheap run --interval 64KiB -- ...",
                "a longer or finer recording, to be sure",
            )
        )
    return tuple(steps)
