"""GitHub's workflow commands: a line on standard output that becomes an annotation of the run.

Format and escapes: GitHub Docs, "Workflow commands for GitHub Actions" and @actions/core's command.ts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from offheap.analysis.gate.results import Gate
from offheap.analysis.leaks.answer import headline
from offheap.recording.model import Frame
from offheap.report.text.printable import printable
from offheap.report.text.site_lines import site_lines

_MOST = 10  # annotations that GitHub shows of a kind and step
_ROOTS = (
    "",
    "src/main/java",
    "src/test/java",
    "src/main/kotlin",
    "src/test/kotlin",
    "src",
    "app/src/main/java",
)


def workflow_commands(gates: Sequence[Gate], root: Path) -> Iterator[str]:
    """One line a site that failed, or a condition that has none; `root`: the checkout, to find sources in."""
    left = _MOST
    for gate in gates:
        for check in gate.checks:
            if check.outcome == "passed":
                continue
            command = "error" if check.outcome == "failed" else "warning"
            title = _property(f"offheap {check.name}")
            if not check.suspects or check.outcome == "cannot tell":
                yield f"::{command} title={title}::{_data(check.why)}"
                continue
            for suspect in check.suspects[:left]:
                called = headline(suspect)
                message = _data("; ".join([check.why, site_lines(suspect, 1)[0], called]))
                yield f"::{command} {_position(suspect.blamed, root)}title={title}::{message}"
            left = max(left - len(check.suspects), 0)


def _position(frame: Frame, root: Path) -> str:
    """`file=...,line=...,` where the frame's source file is in the checkout, else nothing."""
    if not frame.file:
        return ""
    package = (
        frame.name.rpartition(".")[0].rpartition(".")[0].replace(".", "/") if frame.kind == "java" else ""
    )
    name = (
        frame.file.lstrip("/") if frame.kind != "java" else f"{package}/{Path(frame.file).name}".lstrip("/")
    )
    if ".." in name.split("/") or "\0" in name:
        return ""
    found = [Path(folder) / name for folder in _ROOTS if _is_file(root / folder / name)]
    found += [
        module.relative_to(root) / folder / name
        for module in sorted(root.glob("*/"))
        for folder in _ROOTS[1:3]
        if not found and _is_file(module / folder / name)
    ]
    if not found:
        return ""
    line = f"line={frame.line}," if frame.line else ""
    return f"file={_property(str(found[0]))},{line}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # a name longer than any file may have: classes may be called so


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
