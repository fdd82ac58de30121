"""Headers from a file: credentials are never on the command line, where every user can read them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from offheap.errors import UserError
from offheap.proc.opening import regular

MOST_BYTES = 64 << 10
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e]*)")


def headers(path: Path) -> dict[str, str]:
    """One header a line, `Name: value`; empty lines and lines that start with # do not count.

    UserError: the file cannot be read, others may read it, or a line is not a header.
    """
    try:
        with regular(path, most=MOST_BYTES, owners=(os.geteuid(), 0)) as file:
            mode, data = file.status.st_mode, file.read_at(0, MOST_BYTES)
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror or error}"
        raise UserError(why, "give a file of `Name: value` lines") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"other users may read {path}", f"chmod 600 {path}")
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        field = _FIELD.fullmatch(line.rstrip())
        if not field:
            raise UserError(f"{path}, line {number} is not a header", "write `Name: value`")
        found[field[1]] = field[2]
    return found
