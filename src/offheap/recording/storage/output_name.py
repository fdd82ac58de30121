"""An output's name: its ending promises a format, and a chosen name is free."""

from __future__ import annotations

import itertools
import os
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


def free_name(stem: str) -> Path:
    """STEM.offheap in the working directory, or STEM-2.offheap and so on, where nothing has that name."""
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    return next(path for name in names if not os.path.lexists(path := Path(f"{name}.offheap")))
