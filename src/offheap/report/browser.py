"""Shows a written page in the user's browser."""

from __future__ import annotations

import os
import threading
from pathlib import Path

# A browser that is started says nothing and goes on; only one that cannot start answers at once.
_PATIENCE_SECONDS = 5.0


def show(page: Path) -> str:
    """Opens the page; "" or, when no browser could be started, why not.  Returns within seconds."""
    if not any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
        # Python would start a browser for the terminal, such as w3m, in the middle of ours.
        return "there is no display and no BROWSER"
    opened: list[bool] = []
    # A BROWSER that is a plain command is waited for, and may run for as long as the user reads.
    thread = threading.Thread(target=_open, args=(page.resolve().as_uri(), opened), daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    return "no browser could be started" if opened == [False] else ""


def _open(address: str, opened: list[bool]) -> None:
    import webbrowser

    opened.append(webbrowser.open(address))
