"""The HTML report: one file that holds its data, its script and its style, and asks nothing of the network.

The template is built from web/ by web/build.py; here only the data goes into it.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from offheap.analysis.results import Suspect
from offheap.errors import UserError
from offheap.recording.model import Recording
from offheap.report.payload import payload

TEMPLATE = Path(__file__).parent / "_web" / "report.html"
_ELEMENT = 'data-encoding="json">@OFFHEAP_PAYLOAD@<'
_MARK = b'<meta name="generator" content="offheap"'

# Below this the data stays readable in the page's source.
_READABLE_BYTES = 64 * 1024


def render(recording: Recording, suspects: Sequence[Suspect]) -> str:
    """The page as text."""
    if not TEMPLATE.is_file():
        raise UserError(
            "this installation has no template for the HTML report",
            "install offheap from a wheel, or run `python web/build.py` in its checkout",
        )
    before, found, after = TEMPLATE.read_text("utf-8").partition(_ELEMENT)
    if not found:
        raise UserError("the template of the HTML report is damaged", "install offheap anew")
    encoding, data = embed(payload(recording, suspects))
    return f'{before}data-encoding="{encoding}">{data}<{after}'


def embed(data: dict[str, Any]) -> tuple[str, str]:
    """The data as text that is safe within a script element, and how it is encoded: json or gzip-base64."""
    # ASCII only, so that a lone surrogate from a hostile name survives; NaN is no JSON, so it fails here.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    if len(text) > _READABLE_BYTES:
        packed = gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)
        return "gzip-base64", base64.b64encode(packed).decode("ascii")
    # "</script" would end the element and "<!--" change how it is read: no "<" is left to do so.
    return "json", text.replace("<", "\\u003c")


def write(recording: Recording, suspects: Sequence[Suspect], output: Path) -> int:
    """Writes the page whole or not at all; its size in bytes.

    Replaces an older report, but no other file, and what it names must be no folder.
    """
    page = render(recording, suspects).encode("utf-8")
    # Into place by a rename: who opens the report meanwhile sees the old one or the new one.
    scratch = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        _refuse_other_files(output)
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(page)
        os.replace(scratch, output)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {output}: {error.strerror or error}", "choose another place with --output"
        ) from error
    return len(page)


def _refuse_other_files(output: Path) -> None:
    if not output.exists():
        return
    if not output.is_file():
        raise UserError(f"{output} is no file", "choose another name with --output")
    with output.open("rb") as file:
        start = file.read(4096)
    if start and _MARK not in start:
        raise UserError(f"{output} exists and is no offheap report", "choose another name with --output")
