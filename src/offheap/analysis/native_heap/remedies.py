"""Ways to give back the memory that glibc keeps free, each with its evidence (mallopt(3))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offheap.analysis.native_heap.results import Arena, Remedy

THRESHOLD = 128 << 10  # M_TRIM_THRESHOLD at the start
FEW = 2


def remedies(arenas: Sequence[Arena], settings: Mapping[str, str]) -> tuple[Remedy, ...]:
    """The remedies that `settings`, the process's variables, do not have yet."""
    found = [
        Remedy(
            "offheap trim",
            sum(arena.trimmable for arena in arenas),
            False,
            "counted: whole free pages that are in memory; what a program frees later comes on top",
        )
    ]
    tunables = settings.get("GLIBC_TUNABLES", "")
    if "MALLOC_ARENA_MAX" not in settings and "glibc.malloc.arena_max" not in tunables:
        kept = sorted((arena.free_resident for arena in arenas), reverse=True)
        found.append(
            Remedy(
                f"MALLOC_ARENA_MAX={FEW} at the next start",
                sum(kept[FEW:]),
                True,
                f"all that arenas but the {FEW} that keep most have free: their threads' blocks would lie in "
                "the others' free memory as far as they fit there, and wait for their locks",
            )
        )
    if "MALLOC_TRIM_THRESHOLD_" not in settings and "glibc.malloc.trim_threshold" not in tunables:
        found.append(
            Remedy(
                f"MALLOC_TRIM_THRESHOLD_={THRESHOLD} at the next start",
                sum(max(arena.top_resident - THRESHOLD, 0) for arena in arenas),
                True,
                "what lies above the last block of each arena beyond that size: glibc raises the threshold "
                "by itself, up to 64 MiB, when large blocks are freed",
            )
        )
    return tuple(found)
