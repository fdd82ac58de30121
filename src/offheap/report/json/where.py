"""offheap.where/1: docs/json.md describes it."""

from __future__ import annotations

from collections.abc import Sequence

from offheap.analysis.owners.accounts import TITLES, Accounts, Part
from offheap.proc.cgroup import Cgroup
from offheap.report.json import native_heap
from offheap.report.json.schemas import Value


def where(accounts: Accounts) -> Value:
    """The whole of it, whatever the text leaves out."""
    memory = accounts.memory
    return {
        "schema": "offheap.where/1",
        "pid": accounts.pid,
        "name": accounts.name,
        "java_version": accounts.java_version or None,
        "rss_bytes": memory.rss,
        "pss_bytes": memory.pss,
        "swap_bytes": memory.swap,
        "huge_page_bytes": memory.huge,
        "owners": [
            {
                "owner": holding.owner,
                "title": TITLES[holding.owner],
                "bytes": holding.bytes,
                "counted": holding.counted,
                "detail": _parts(holding.parts),
            }
            for holding in accounts.holdings
        ],
        "unattributed_bytes": accounts.unattributed_bytes,
        "unattributed": _parts(accounts.unattributed),
        "cgroup": _cgroup(accounts.cgroup),
        "malloc": native_heap.native_heap(accounts.native_heap) if accounts.native_heap else None,
        "ranges": [
            {
                "start": f"{one.start:#x}",
                "end": f"{one.end:#x}",
                "permissions": one.permissions,
                "owner": one.owner,
                "name": one.name,
                "bytes": one.bytes,
            }
            for one in accounts.ranges
        ],
        "sources": list(accounts.sources),
        "missing": list(accounts.missing),
        "seconds": round(accounts.seconds, 3),
        "cost_bytes": accounts.cost_bytes,
        "allocator": accounts.allocator or None,
    }


def _parts(parts: Sequence[Part]) -> list[Value]:
    return [{"name": part.name, "bytes": part.bytes, "ranges": part.ranges} for part in parts]


def _cgroup(cgroup: Cgroup | None) -> Value | None:
    if cgroup is None:
        return None
    return {
        "version": cgroup.version,
        "path": cgroup.path,
        "usage_bytes": cgroup.usage,
        "limit_bytes": cgroup.limit,
        "anonymous_bytes": cgroup.anonymous,
        "page_cache_bytes": cgroup.page_cache,
        "kernel_bytes": cgroup.kernel,
    }
