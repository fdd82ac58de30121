"""Messages that wait on disk while the server is away: the oldest are sent first, and are lost first.

A message is one file, NAME.message: a line of JSON (its server, the query and the content type), then the
body.  Names are numbers in the order of time.  Another user can neither read nor write the folder (mode
0700).
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from offheap.errors import UserError
from offheap.proc.opening import regular
from offheap.push.destination import Message

# Bytes of one message that are read back; a profile of 100,000 stacks takes some 20 MB.
MOST_MESSAGE = 256 << 20
_NAME = re.compile(r"\d{20}\.message")


@dataclass
class Spool:
    """folder  made when the first message waits
    limit   bytes of all messages, for any server; beyond it the oldest are removed
    to      the server of these messages: a recording may be pushed to two servers at the same time
    lost    messages removed so far
    """

    folder: Path
    limit: int
    to: str = ""
    lost: int = 0

    def add(self, message: Message) -> None:
        """Keeps a message; UserError when the folder cannot be written."""
        fields = {"to": self.to, "query": message.query, "content_type": message.content_type}
        head = json.dumps(fields).encode()
        data = head + b"\n" + message.body
        if len(data) > self.limit:
            self.lost += 1
            return
        try:
            self._make()
            self._shrink(self.limit - len(data))
            name = self.folder / f"{time.time_ns():020d}.message"
            draft = name.with_suffix(".draft")
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                draft.rename(name)
            except BaseException:
                draft.unlink(missing_ok=True)  # leaves nothing behind on a full disk
                raise
        except OSError as error:
            why = f"{self.folder} cannot keep what waits for the server: {error.strerror}"
            raise UserError(why, "give another folder with --spool") from None

    def waiting(self) -> Iterator[tuple[Path, Message]]:
        """The messages for `to`, the oldest first; a file that is no message is skipped."""
        for path in self._files():
            try:
                with regular(path, most=MOST_MESSAGE, owners=(os.geteuid(),), follow=False) as file:
                    data = file.read_at(0, MOST_MESSAGE)
                head, found, body = data.partition(b"\n")
                fields = json.loads(head)
                message = Message(str(fields["query"]), str(fields["content_type"]), body)
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if found and fields.get("to") == self.to:
                yield path, message

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        except OSError:
            return []

    def _make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.folder.lstat()
        mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if not mine or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UserError(f"other users may use {self.folder}", "give a folder of your own with --spool")

    def _shrink(self, most: int) -> None:
        files = self._files()
        sizes = [path.lstat().st_size for path in files]
        total = sum(sizes)
        for path, size in zip(files, sizes, strict=True):
            if total <= most:
                return
            path.unlink(missing_ok=True)
            self.lost += 1
            total -= size
