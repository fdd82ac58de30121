"""The ending of an output's name, as a promise of a format that the command must be able to keep."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from offheap.errors import UserError

# Formats that people ask such a tool for.  Any other ending belongs to the name: app.v2, shop-1.4.
_FORMATS = frozenset(
    [
        ".bz2",
        ".collapsed",
        ".csv",
        ".db",
        ".docx",
        ".folded",
        ".gif",
        ".gz",
        ".hprof",
        ".htm",
        ".html",
        ".jfr",
        ".jpeg",
        ".jpg",
        ".json",
        ".jsonl",
        ".live",
        ".log",
        ".markdown",
        ".md",
        ".parquet",
        ".pb",
        ".pdf",
        ".png",
        ".ps",
        ".rst",
        ".sqlite",
        ".svg",
        ".tar",
        ".tgz",
        ".tsv",
        ".txt",
        ".xlsx",
        ".xml",
        ".xz",
        ".yaml",
        ".yml",
        ".zip",
        ".zst",
    ]
)


def refuse_other_format(output: Path, own: Collection[str], mend: str) -> None:
    """UserError if the name has the suffix of a known format that is not in `own`, those of the command."""
    ending = output.suffix.lower()
    if ending in _FORMATS and ending not in own:
        raise UserError(f"{output} ends in {ending}, which this command does not write", mend)
