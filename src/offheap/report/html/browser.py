"""Shows a written page in the user's browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# A started browser runs on and says nothing; only one that cannot start returns at once.
_PATIENCE_SECONDS = 5.0
_PROGRAM = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def show(page: Path) -> str:
    """Opens the page; "" or, when no browser could be started, why not.  Returns within seconds."""
    if not any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
        # Python would start a browser for the terminal, such as w3m, in the middle of ours.
        return "there is no display and no BROWSER"
    # In a process of its own: webbrowser waits for a BROWSER that is a plain command, which may run for as
    # long as the user reads, and would keep the pipe of standard output open.
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-c", _PROGRAM, page.resolve().as_uri()]
    process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    try:
        failed = process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        return ""
    return "no browser could be started" if failed else ""
