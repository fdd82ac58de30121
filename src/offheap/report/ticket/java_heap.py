"""The Java heap in a document."""

from __future__ import annotations

from offheap.analysis.java_heap.answer import answer as java_answer
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks.ticket import MOST_SUSPECTS
from offheap.analysis.stacks.namesakes import apart
from offheap.report.text import java_heap as words
from offheap.report.ticket.document import Block, CodeText, Facts, Heading, Paragraph, Table
from offheap.report.ticket.suspects import STACKS, about, suspects_table


def java_blocks(report: JavaHeapReport) -> list[Block]:
    """The answer, the books, the suspects with their stacks, the largest classes."""
    facts = [
        ("live", words.live(report)),
        ("books", words.books(report)),
        ("younger", words.uncollected(report)),
        *(("not seen", sentence) for sentence in report.coverage),
    ]
    blocks: list[Block] = [
        Heading("Java heap"),
        Paragraph(java_answer(report), strong=True),
        Facts([(label, fact) for label, fact in facts if fact]),
    ]
    shown = report.suspects[: min(report.suspicious, MOST_SUSPECTS)]
    if shown:
        marks = apart([one.site for one in shown], [one.blamed for one in shown])
        blocks.append(suspects_table(shown, marks, report.suspects.rate_unit, report.suspicious - len(shown)))
        for suspect in shown[:STACKS]:
            blocks += about(suspect)
    if report.classes:
        rows = [(*words.class_figures(one), CodeText(one.name)) for one in report.classes[: words.CLASSES]]
        blocks.append(Table(("live", "objects", "younger", "class"), rows, frozenset({1, 2})))
    return blocks
