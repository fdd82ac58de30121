"""One sentence a site, with the figures behind its verdict."""

from __future__ import annotations

import numpy as np

from offheap.analysis.sites.sites import SiteTable
from offheap.analysis.verdicts.verdict_reasons import Judgements, Reason
from offheap.quantities import RateUnit, format_count, format_duration, format_size

_LITTLE_FREED = 0.05  # share of allocated bytes: below it the figure of what was freed explains nothing


def why(judged: Judgements, sites: SiteTable, number: int, unit: RateUnit, thing: str = "block") -> str:
    """The reason of a site's verdict; `thing`: what a site allocates, in the singular."""
    live, allocated = (
        float(sites.live_bytes.estimate[number]),
        float(sites.allocated_bytes.estimate[number]),
    )
    amounts, gone = f"{format_size(live)} live", max(allocated - live, 0.0)
    rate = unit.format(float(judged.growth.estimate[number]))
    match Reason(judged.seen[number]):
        case Reason.NOTHING_LIVE:
            most = float(sites.live_bytes.high[number])
            if most > 0:
                return (
                    f"no sampled {thing} of the {format_size(allocated)} allocated is live: "
                    f"{format_size(most)} at most may be"
                )
            return f"nothing of the {format_size(allocated)} allocated is live"
        case Reason.SHORT:
            return f"known for {format_duration(float(judged.seconds[number]))} only"
        case Reason.LEAKS:
            age = format_duration(float(judged.last_fifth[number]))
            cache = "; a cache that fills looks the same until it is full" if judged.may_fill[number] else ""
            return (
                f"live bytes grow by {rate} to the end and {thing}s of every age stay: "
                f"{format_size(float(judged.old.estimate[number]))} of {amounts} older than {age}{cache}"
            )
        case Reason.SURVIVES:
            return (
                f"collections free it in batches, and what survives them grows by {rate}: "
                f"{format_size(float(judged.passed.estimate[number]))} of {amounts} met one before"
            )
        case Reason.SOME_SURVIVES:
            return (
                f"collections free it in batches, and what survives them grew by {rate}, "
                "but it is not shown to go on: "
                f"{format_size(float(judged.passed.estimate[number]))} of {amounts} met one before"
            )
        case Reason.COLLECTED:
            return (
                f"collections free it in batches, and hardly anything survives them: "
                f"{format_size(gone)} of {format_size(allocated)} allocated was freed; {amounts}"
            )
        case Reason.WAITS:
            return (
                f"live bytes grow by {rate}, but collections free it in batches, "
                f"and the next one may free it: {amounts}"
            )
        case Reason.EVICTS:
            return (
                f"live bytes grow by {rate}, but old {thing}s begin to be freed, "
                f"as of a cache that is full: {amounts}"
            )
        case Reason.FILLS:
            return (
                f"live bytes grow by {rate}, but ever more slowly, as a cache that fills: "
                f"{amounts}{_bound(judged, number)}"
            )
        case Reason.CAME_EARLY:
            third = format_duration(float(judged.first_third[number]))
            since = "it grows ever more slowly" if judged.grows[number] else "no growth since"
            return f"{judged.early_share[number]:.0%} of {amounts} came in the first {third}; {since}"
        case Reason.JVM_SLOWS:
            return f"the JVM's own, growing ever more slowly: {amounts}, {rate} at the end"
        case Reason.SLOWS:
            return f"live bytes grow by {rate}, but ever more slowly: {amounts}{_bound(judged, number)}"
        case Reason.OLDEST_FREED:
            return f"live bytes grow by {rate}, but the oldest {thing}s were freed: {amounts}"
        case Reason.FEW_OLD:
            old = f"only {int(judged.survivors[number])} sampled {thing}s are old"
            return f"live bytes grow by {rate}, but {old}: {amounts}"
        case Reason.HARDLY_OF_LATE:
            return f"live bytes grow by {rate}, but hardly at the end: {amounts}"
        case Reason.OLD_DIE:
            return f"live bytes grow by {rate}, but old {thing}s are freed in the end: {amounts}"
        case Reason.MAY_END:
            return f"live bytes grow by {rate}, but chance or a start-up can explain that: {amounts}"
        case Reason.JVM_KEEPS_LITTLE:
            return f"the JVM's own, growing by {rate}, no more than compiled code needs: {amounts}"
        case Reason.JAVA_HEAP:
            return f"for pages of the Java heap, which the JVM commits up to its bound: {amounts}"
        case Reason.UNCOLLECTED:
            return f"live bytes grow by {rate}, but no collection ran that could have freed it: {amounts}"
        case Reason.LOADED:
            few = "collections of the whole heap unload classes, and no two of them ran"
            return f"live bytes grow by {rate}, but {few}: {amounts}"
        case Reason.NO_COLLECTION:
            known = f"none of the {format_size(allocated)} allocated is known to be live"
            return f"no collection ran that could have freed it: {known}"
        case Reason.BIRTHS_UNKNOWN:
            unknown = f"whether old {thing}s stay is not in the files"
            return f"live bytes grow by {rate}; {unknown}: {amounts}"
        case Reason.NOTHING_FREED:
            samples = format_count(judged.samples[number])
            return f"none of the {samples} sampled {thing}s was freed and more keep coming: {amounts}"
        case Reason.FEW_SAMPLES:
            samples = format_count(judged.samples[number])
            return f"{amounts}, too few samples to tell growth from chance ({samples})"
        case Reason.STEADY:
            if gone < _LITTLE_FREED * allocated:
                return f"{amounts}, no growth beyond chance"
            return f"{format_size(gone)} of {format_size(allocated)} allocated was freed; {amounts}"


def _bound(judged: Judgements, number: int) -> str:
    """How far it would go on like that."""
    most = float(judged.bound[number])
    return f", {format_size(most)} if it goes on like that" if np.isfinite(most) else ""
