"""Installs pip into this virtual environment from PyPI, for a Python without ensurepip.

Debian keeps ensurepip in a package of its own, python3-venv, which only root can install.  Environment:
PIP_INDEX_URL and PIP_CERT, as pip knows them.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

WHEEL = "pip-25.3-py3-none-any.whl"
SHA256 = "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd"


def fetch(url: str) -> bytes:
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    with urllib.request.urlopen(url, timeout=60, context=context) as answer:
        content: bytes = answer.read()
    return content


def wheel() -> bytes:
    """The wheel, by the index's page of links."""
    index = (os.environ.get("PIP_INDEX_URL") or "https://index.example/simple").rstrip("/") + "/pip/"
    link = re.search(rf'href="([^"]*/{re.escape(WHEEL)}[^"]*)"', fetch(index).decode())
    if not link:
        raise ValueError(f"{index} has no {WHEEL}")
    content = fetch(urllib.parse.urljoin(index, html.unescape(link[1])))
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise ValueError(f"the {WHEEL} of {index} is not the one expected")
    return content


def main() -> None:
    try:
        content = wheel()
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"this Python has no ensurepip and pip cannot be fetched ({error}): "
            "install your distribution's python3-venv package"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, WHEEL)
        path.write_bytes(content)
        # A wheel of pip can install itself.
        command = [
            sys.executable,
            f"{path}/pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            str(path),
        ]
        raise SystemExit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
