"""The HTML report: one file that holds its data, its script and its style, and needs no network.

The template is built from web/ by web/build.py; here only the data goes into it.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from offheap.analysis.diff.results import Diff
from offheap.analysis.page.recording_page import RecordingPage
from offheap.errors import UserError
from offheap.report.html import diff_payload
from offheap.report.html.payload import payload
from offheap.report.text.output import put

TEMPLATE = Path(__file__).parents[1] / "_web" / "report.html"
_ELEMENT = 'data-encoding="json">@OFFHEAP_PAYLOAD@<'
MARK = '<meta name="generator" content="offheap"'  # in the template

# Below this the data stays readable in the page's source.
_READABLE_BYTES = 64 * 1024


def render(page: RecordingPage) -> str:
    """The page of a recording, as text."""
    return _page(payload(page))


def render_diff(diff: Diff, java: Diff | None = None) -> str:
    """The page of a diff, which must have its stacks, as text; `java`: of the Java heaps."""
    return _page(diff_payload.payload(diff, java))


def _page(data: dict[str, Any]) -> str:
    if not TEMPLATE.is_file():
        raise UserError(
            "this installation has no template for the HTML report",
            "install offheap from a wheel, or run `python web/build.py` in its checkout",
        )
    template = TEMPLATE.read_text("utf-8")
    before, found, after = template.partition(_ELEMENT)
    if not found:
        raise UserError("the template of the HTML report is damaged", "reinstall offheap")
    if data["schema"] not in template:
        # A newer checkout: nothing rebuilds web/ by itself.
        raise UserError(
            "the template of the HTML report belongs to another version of offheap",
            "run `python web/build.py` in the checkout, or reinstall offheap",
        )
    encoding, text = embed(data)
    return f'{before}data-encoding="{encoding}">{text}<{after}'


def embed(data: dict[str, Any]) -> tuple[str, str]:
    """The data as text that is safe within a script element, and how it is encoded: json or gzip-base64."""
    # ASCII only, so that a lone surrogate from a hostile name survives; NaN is no JSON, so it fails here.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    if len(text) > _READABLE_BYTES:
        packed = gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)
        return "gzip-base64", base64.b64encode(packed).decode("ascii")
    # "</script" would end the element and "<!--" change how it is read: no "<" is left to do so.
    return "json", text.replace("<", "\\u003c")


def write(page: RecordingPage, output: Path) -> int:
    """Writes the page whole or not at all; its size in bytes.  What `output.put` refuses is a UserError."""
    return put(output, render(page), MARK)


def write_diff(diff: Diff, output: Path, java: Diff | None = None) -> int:
    """The same for the page of a diff."""
    return put(output, render_diff(diff, java), MARK)
