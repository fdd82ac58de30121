"""Keeps the probe of a development checkout up to date with its C sources.

An editable install runs straight from the checkout, in which no packaging step follows a change of a C file.
Code that loads the probe calls `refresh_probe()` first, which compares the sources with the stamp beside the
library (about a millisecond) and rebuilds only when they differ.

`refresh_probe` builds only the checkout that pip recorded as an editable install, and only if no other user
may write to it: an installation below /tmp must not run another user's /tmp/probe/build.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import stat
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from offheap.errors import UserError

_ROOT = Path(__file__).resolve().parents[3]
_BUILD_SCRIPT = _ROOT / "probe" / "build.py"


def refresh_probe() -> None:
    """Rebuilds src/offheap/_lib/liboffheap.so if a source changed; UserError with zig's words if not."""
    if not _BUILD_SCRIPT.is_file() or not is_editable():
        return
    script = build_script()
    try:
        script.build_if_changed()
    except script.BuildError as error:
        raise UserError(
            f"the probe of this checkout cannot be built: {error}", f"see `python {_BUILD_SCRIPT}`"
        ) from error


def is_editable() -> bool:
    """Whether pip installed this checkout as editable, and no other user may change the code it runs."""
    from importlib import metadata

    try:
        # PEP 610; absent without an installation.
        origin = json.loads(metadata.distribution("offheap").read_text("direct_url.json") or "{}")
        editable = origin["dir_info"]["editable"] is True
        recorded = Path(unquote(urlsplit(origin["url"]).path)).resolve()
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return False
    return editable and recorded == _ROOT and all(map(_ours, (_ROOT, _BUILD_SCRIPT.parent, _BUILD_SCRIPT)))


def _ours(path: Path) -> bool:
    """Whether the file or folder belongs to this user or root, and no other user may write to it."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        return False
    # The user's own group may write, as on distributions with a umask of 002.
    own_group = status.st_gid == os.getegid()
    return not status.st_mode & (stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP)


def build_script() -> ModuleType:
    """probe/build.py of this checkout as a module."""
    spec = importlib.util.spec_from_file_location("probe_build", _BUILD_SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
