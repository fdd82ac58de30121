"""offheap.where-all/1: docs/json.md describes it."""

from __future__ import annotations

from collections.abc import Sequence

from offheap.analysis.owners.accounts import JVMAccounts
from offheap.report.json import where
from offheap.report.json.schemas import Value


def where_all_json(accounts: Sequence[JVMAccounts]) -> Value:
    """offheap.where-all/1: docs/json.md describes it."""
    return {
        "schema": "offheap.where-all/1",
        "jvms": [
            where.where(one.accounts)
            if one.accounts
            else {"pid": one.pid, "name": one.name or None, "error": one.error}
            for one in accounts
        ],
    }
