"""Native Memory Tracking's report of a process, of a recording, or from a saved file of either."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from offheap.analysis.nmt import external as nmt_external
from offheap.analysis.nmt.results import External, Tracked
from offheap.errors import UserError
from offheap.inspect.process import inspect_process
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.texts import nmt
from offheap.jvm.texts.nmt import Category


def of_process(pid: int, *, detail: bool = False, scale: str = "KB") -> Tracked:
    """Asks the JVM, then measures the memory outside its tracking; UserError when the JVM does not track.

    `detail` makes the JVM read libjvm's symbols and keep them: 4 to 6 MiB, once.
    """
    vm = AttachedVM(pid)
    report = nmt.parse(vm.jcmd("VM.native_memory summary scale=B"))
    if report is None:
        raise UserError(
            f"Native Memory Tracking is off in PID {pid}",
            "start it with -XX:NativeMemoryTracking=summary; `offheap where` does without",
        )
    text = vm.jcmd(f"VM.native_memory {'detail' if detail else 'summary'} scale={scale}")
    if nmt.parse(text) is None:
        raise UserError(
            f"Native Memory Tracking of PID {pid} has no details: {' '.join(text.split())[:80]}",
            "start it with -XX:NativeMemoryTracking=detail, or leave out --detail",
        )
    accounts = inspect_process(pid)
    return Tracked(pid, accounts.name, report.categories, nmt_external.of_process(accounts), text)


def of_file(path: Path) -> Tracked:
    """A baseline: a file of `offheap nmt -o`, or jcmd's text; UserError when it is neither."""
    try:
        content = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "give a file of `offheap nmt -o`") from None
    tracked = parse(content)
    if tracked is None:
        raise UserError(
            f"{path} is not a report of Native Memory Tracking",
            "give a file of `offheap nmt -o`, or of jcmd",
        )
    return tracked


def parse(content: str) -> Tracked | None:
    """None when the content is neither offheap's JSON nor a report of the JVM."""
    if not content.lstrip().startswith("{"):
        report = nmt.parse(content)
        if report is None:
            return None
        return Tracked(0, "", report.categories, External(Category(nmt_external.NAME)))
    try:
        document = json.loads(content)
        if document["schema"] != "offheap.nmt/1":
            return None
        categories = [_category(row) for row in document["categories"]]
        external = External(_category(document["external"]))
        return Tracked(int(document["pid"]), str(document["name"]), {c.name: c for c in categories}, external)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _category(row: dict[str, Any]) -> Category:
    values: dict[str, Any] = {"name": str(row["name"])}
    for field in fields(Category):
        key = field.name if field.name.endswith("_count") else f"{field.name}_bytes"
        if field.name != "name" and row.get(key) is not None:
            values[field.name] = int(row[key])
    return Category(**values)
