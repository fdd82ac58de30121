"""offheap.nmt/1: docs/json.md describes it.  It is the baseline of a later diff as well."""

from __future__ import annotations

from dataclasses import fields

from offheap.analysis.nmt.results import ExternalSite, Tracked
from offheap.jvm.texts.nmt import Category
from offheap.report.json.schemas import Value

_COUNTS = ("malloc_count", "malloc_peak_count")


def nmt(tracked: Tracked) -> Value:
    """All categories in bytes."""
    external = tracked.external
    return {
        "schema": "offheap.nmt/1",
        "pid": tracked.pid,
        "name": tracked.name,
        "categories": [_category(category) for category in tracked.categories.values()],
        "external": {
            **_category(external.category),
            "retained_bytes": external.retained,
            "sites": [_site(site) for site in external.sites],
        },
        "missing": list(external.missing),
    }


def _category(category: Category) -> dict[str, Value]:
    names = [field.name for field in fields(category)]
    return {_key(name): getattr(category, name) for name in names}


def _key(name: str) -> str:
    return name if name == "name" or name in _COUNTS else f"{name}_bytes"


def _site(site: ExternalSite) -> Value:
    return {"kind": site.kind, "bytes": site.bytes, "blocks": site.blocks, "stack": list(site.frames)}
