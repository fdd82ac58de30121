"""Keeps the probe of a development checkout up to date with its C sources.

An editable install runs straight from the checkout, in which no packaging step follows a change of a C file.
Code that loads the probe calls `refresh_probe()` first, which compares the sources with the stamp beside the
library (about a millisecond) and rebuilds only when they differ.

`refresh_probe` builds only the checkout that pip recorded as an editable install, and only if no other user
may change what it compiles and runs, or exchange one of the folders above: an installation below /tmp must
not run another user's /tmp/probe/build.py.
"""

from __future__ import annotations

import functools
import grp
import importlib.util
import json
import os
import pwd
import stat
from collections.abc import Iterator
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
    return editable and recorded == _ROOT and is_ours(_ROOT)


def is_ours(root: Path) -> bool:
    """Whether a checkout belongs to this user or root, and no other user may change what a build uses."""
    # In a sticky folder, such as /tmp, only the owner of a file may rename it.
    return all(_is_safe(path) for path in _inputs(root)) and all(
        _is_safe(folder, sticky=True) for folder in root.parents
    )


def _inputs(root: Path) -> Iterator[Path]:
    """All below probe/, as Python may also run what is in its __pycache__; the version; the folders."""
    package = root / "src" / "offheap"
    yield from (root, root / "src", package, package / "__init__.py", root / "probe")
    if (package / "_lib").exists():
        yield package / "_lib"
    for folder, folders, files in os.walk(root / "probe"):
        yield from (Path(folder, name) for name in (*folders, *files))


def _is_safe(path: Path, *, sticky: bool = False) -> bool:
    """Whether no other user may write to a file or folder; `sticky`: others may write to a sticky folder."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        return False
    if sticky and status.st_mode & stat.S_ISVTX:
        return True
    if status.st_mode & stat.S_IWOTH:
        return False
    return not status.st_mode & stat.S_IWGRP or _is_private(status.st_gid)


@functools.cache
def _is_private(group: int) -> bool:
    """Whether a group is this user's alone: where each user has one, the umask is 002."""
    try:
        user, its = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (
        (its.gr_name, its.gr_gid) == (user.pw_name, user.pw_uid)
        and set(its.gr_mem) <= {user.pw_name}
        and all(other.pw_gid != group or other.pw_uid == user.pw_uid for other in pwd.getpwall())
    )


def build_script() -> ModuleType:
    """probe/build.py of this checkout as a module."""
    spec = importlib.util.spec_from_file_location("probe_build", _BUILD_SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
