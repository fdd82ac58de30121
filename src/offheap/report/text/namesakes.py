"""What tells sites of one name apart, as a line of text can bear it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offheap.analysis.stacks.blame import short
from offheap.analysis.stacks.namesakes import Mark, brief
from offheap.recording.model import Frame
from offheap.report.text.printable import place


def beside(marks: Sequence[Mark], name: Callable[[Frame], str] = short) -> str:
    """`← Prices.load ← Main.run`, `at Feed.java:12`, `through SSL_new`; "" for a name that is the only one.

    Not yet printable.
    """
    words = []
    for mark in marks:
        match mark.how:
            case "caller":
                words.append(f"← {name(mark.frame)}")
            case "line":
                words.append(f"← {name(mark.frame)} ({place(mark.frame)})")
            case "callee":
                words.append(f"through {name(mark.frame)}")
            case "name":
                words.append(mark.frame.name)
    return " ".join(words)


def fitted(blamed: Frame, marks: Sequence[Mark], room: int) -> str:
    """The name and what tells it apart in so many columns: `Feed.open ← Prices.load`.

    Where that is too long classes go first, then the end of the name, of which a third of the room stays,
    then the end of the rest.
    """
    for own, other in ((brief, brief), (_classless, brief), (_classless, _classless)):
        name, rest = own(blamed), beside(marks, other)
        if len(name) + 1 + len(rest) <= room:
            return f"{name} {rest}"
    left = max(room - len(rest) - 1, room // 3)
    return f"{_cut(name, left)} {_cut(rest, room - left - 1)}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"


def _classless(frame: Frame) -> str:
    return frame.name.rpartition(".")[2] if frame.kind == "java" else brief(frame)
