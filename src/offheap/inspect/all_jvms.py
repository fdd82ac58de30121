"""Inspects several processes, one after the other: one that cannot be inspected does not hide the others."""

from __future__ import annotations

from collections.abc import Iterator

from offheap.analysis.owners.accounts import JVMAccounts
from offheap.errors import UserError
from offheap.inspect import discovery
from offheap.inspect.process import inspect_process


def inspect_all_jvms(
    pid: int | None = None, *, attach: bool = True, detail: bool = False
) -> Iterator[JVMAccounts]:
    """Every visible JVM of this machine, or the one with that PID."""
    found = [(pid, "")] if pid is not None else [(jvm.pid, jvm.main) for jvm in discovery.find_all()]
    for number, name in found:
        try:
            accounts = inspect_process(number, attach=attach, detail=detail)
        except UserError as error:
            yield JVMAccounts(number, name, None, str(error))
        except (
            PermissionError,
            ProcessLookupError,
        ):  # a process that is ending refuses as another user's does
            yield JVMAccounts(number, name, None, f"PID {number} has ended, or may not be read")
        else:
            yield JVMAccounts(number, accounts.name or name, accounts)
