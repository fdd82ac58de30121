"""Who holds RSS and what of it grows, together with what the blocks of the recording show: `reconcile`."""

from __future__ import annotations

import shlex
from dataclasses import replace

from offheap.analysis.leaks.answer import describe
from offheap.analysis.leaks.conclusion import Conclusion, conclude
from offheap.analysis.leaks.leaks import Ranking
from offheap.analysis.leaks.reconcile import PAGES, QUIET, Level, why_no_site
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.owners.growth import FRAGMENTS
from offheap.analysis.owners.results import Kind, OwnersGrowth, WhereVerdict
from offheap.analysis.owners.verdict import JAVA_HEAP, where_command
from offheap.analysis.stacks.jvm_structures import mapped_for
from offheap.analysis.statistics.trend import JUDGED
from offheap.quantities import PER_SECOND, format_size, round_up_seconds

# What the JVM counts as direct buffers.
_BUFFERS = ("java.nio.DirectByteBuffer.", "java.nio.ByteBuffer.allocateDirect", "java.nio.Bits.")
# What Native Memory Tracking counts with them: Unsafe's memory, and FFM's, which the JDK takes from Unsafe.
_UNSAFE = ("jdk.internal.misc.Unsafe.allocateMemory", "sun.misc.Unsafe.allocateMemory")
_TRACKED = "jvm-malloc"  # an owner that only Native Memory Tracking tells
# Owners of the pages of mappings.
_FILES = ("mapped-files", "shared-libraries", "jars")
_ANONYMOUS = ("anonymous", "unattributed")


def owners_with_blocks(found: OwnersGrowth, ranked: Ranking) -> OwnersGrowth:
    """`found` with a verdict that does not contradict that on the blocks, `ranked`, of the same recording."""
    verdict = _with_objects(_verdict(found, ranked, conclude(ranked)), ranked)
    return found if verdict is found.verdict else replace(found, verdict=verdict)


def _with_objects(verdict: WhereVerdict, ranked: Ranking) -> WhereVerdict:
    """The next step where the recording already has the Java objects that a further one would follow."""
    recording = ranked.sites.recording
    if verdict.kind != "java-heap" or recording.java is None:
        return verdict
    others = (step for step in verdict.next if JAVA_HEAP not in step)
    return replace(verdict, next=(f"offheap leaks {shlex.quote(recording.info.path)}", *others))


def _verdict(by_pages: OwnersGrowth, ranked: Ranking, found: Conclusion) -> WhereVerdict:
    by_level = by_pages.verdict
    leaks = f"offheap leaks {shlex.quote(ranked.sites.recording.info.path)}"
    if found.rank is None:
        if not found.level or by_level.kind not in PAGES:
            return by_level
        why = f"{by_level.why}; {why_no_site(found.level, found.most, PER_SECOND)}"
        told = replace(by_level, why=why, next=(leaks, *by_level.next))
        return _too_little(told, found.level, str(ranked.sites.recording.info.pid))
    suspect = ranked[found.rank]
    who = describe(suspect, PER_SECOND)
    if found.kind == "leak" and by_level.kind in QUIET:
        # Blocks that stay count, whatever their pages did.
        kind = _holds(suspect, by_pages)
        why = f"blocks leak: {who}; by the pages alone the verdict is {by_level.kind}: {by_level.why}"
        return WhereVerdict(kind, why, (leaks,), by_level.grown)
    if by_level.kind == "stable":
        why = f"{by_level.why}, but blocks grow, and are not shown to leak: {who}"
        return replace(by_level, kind="cannot tell yet", why=why, next=(leaks,), needs_seconds=found.seconds)
    if by_level.kind in QUIET:
        return by_level
    what = "blocks leak" if found.kind == "leak" else "blocks grow, and are not shown to leak"
    return replace(by_level, why=f"{by_level.why}; {what}: {who}", next=(leaks, *by_level.next))


def _too_little(verdict: WhereVerdict, level: Level, pid: str) -> WhereVerdict:
    """No verdict yet where malloc's pages that no block explains are no more than fragments come to."""
    gained = level.rate.estimate * level.seconds
    if level.kind != "native-malloc" or level.explained or gained >= FRAGMENTS:
        return verdict
    needs = round_up_seconds(1 / JUDGED * FRAGMENTS / level.rate.estimate)
    part = "what malloc keeps between blocks, and the JVM's own blocks, rise and fall by as much"
    return replace(
        verdict,
        kind="cannot tell yet",
        why=f"{verdict.why}; {format_size(gained)} may be fragments: {part}",
        next=(*verdict.next, where_command(pid, needs)),
        needs_seconds=needs,
    )


def _holds(suspect: Suspect, by_pages: OwnersGrowth) -> Kind:
    """Whose pages its blocks lie in; of mappings the block does not tell whether a file is behind it."""
    if suspect.site.kind == "mmap" and (owner := mapped_for(suspect.site.stack)):
        return owner
    if suspect.site.kind == "mmap":
        gained = {one.owner: one.bytes - one.first_bytes for one in by_pages.owners}
        files, others = (sum(gained.get(name, 0.0) for name in names) for names in (_FILES, _ANONYMOUS))
        return "mapped-files" if files > max(others, 0.0) else "native-mmap"
    tracked = any(one.owner == _TRACKED for one in by_pages.owners)
    begins = (*_BUFFERS, *_UNSAFE) if tracked else _BUFFERS
    buffer = any(frame.name.startswith(begins) for frame in suspect.site.stack if frame.kind == "java")
    return "direct-buffers" if buffer else "native-malloc"
