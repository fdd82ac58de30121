"""HotSpot's attach protocol, versions 1 (every JDK) and 2 (JDK 24 and later), without a JDK.

One connection carries one request and its reply.
Version 1: "1", the command and exactly three arguments, each NUL-terminated, none over 1,024 bytes.
Version 2: "2", the decimal byte length of what follows, then the command and any number of arguments.
Reply: the decimal result code, a newline, and the body up to the end of the connection.
"""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import PurePath

from offheap.errors import UserError
from offheap.jvm.listener import attach_listener
from offheap.jvm.listener.attach_listener import TargetGone
from offheap.proc import status

ATTACH_SECONDS = 10.0
REPLY_SECONDS = 60.0
_DYING_SECONDS = 0.2
_V1_ARGUMENTS = 3
_V1_ARGUMENT_BYTES = 1024
_BAD_VERSION = 101
_MOST_REPLY = 64 << 20  # bytes; NMT's details of a large server have some 5 MiB


class AttachError(UserError):
    """The JVM refused the request; `reply` is the body of its answer."""

    def __init__(self, what: str, mend: str = "", reply: str = "") -> None:
        super().__init__(what, mend)
        self.reply = reply


class AttachedVM:
    """A JVM that takes requests.  The constructor sends nothing.

    `attach_seconds` limits how long the JVM may take to open its socket, `reply_seconds` a request.
    """

    def __init__(
        self, pid: int, *, attach_seconds: float = ATTACH_SECONDS, reply_seconds: float = REPLY_SECONDS
    ) -> None:
        try:
            self._target = status.read(pid)
        except ProcessLookupError:
            raise attach_listener.NoProcess(pid) from None
        self.pid = pid
        self._attach_seconds = attach_seconds
        self._reply_seconds = reply_seconds
        self._version: int | None = None

    @property
    def version(self) -> int:
        """The newest protocol version that the JVM and offheap both speak: 1 or 2."""
        if self._version is None:
            code, body = self._exchange(encode_v1("getversion"), "asking for its attach version")
            # JDKs before 24 do not know this request.
            newest = body.split()[:1] if code == 0 else []
            self._version = 2 if newest and newest[0].isdecimal() and int(newest[0]) >= 2 else 1
        return self._version

    def execute(self, command: str, *arguments: str) -> str:
        """Sends one request and returns the body of the reply; AttachError unless the result code is 0.

        A result code of 0 does not mean success: read the body too.
        """
        if _fits_v1(command, arguments):
            request = encode_v1(command, *arguments)
        elif self.version >= 2:
            request = encode_v2(command, *arguments)
        else:
            raise UserError(
                f"an argument of `{command}` exceeds the {_V1_ARGUMENT_BYTES} bytes that this JVM takes",
                "use shorter paths, or a JVM of version 25 or later",
            )
        code, body = self._exchange(request, f"sending it `{command}`")
        if code != 0:
            reason = _first_line(body) or f"result code {code}"
            raise AttachError(f"PID {self.pid} refused `{command}`: {reason}", reply=body)
        return body

    def jcmd(self, command: str) -> str:
        """A diagnostic command with its arguments, as `jcmd PID command` would print it."""
        return self.execute("jcmd", command)

    def load_agent(self, library: str | PurePath, options: str) -> int:
        """Loads a JVMTI agent, by its absolute path as the JVM sees it, and returns Agent_OnAttach's result.

        A library that is loaded already gets its Agent_OnAttach called again.
        """
        try:
            body = self.execute("load", str(library), "true", options)
        except AttachError as error:
            body = error.reply  # JDK 11 and 17 set a result code for what 21 and later only put in the body
        found = re.search(r"^(?:return code: )?(-?\d+)\s*$", body, re.MULTILINE)
        if found:
            return int(found[1])
        if "Dynamic agent loading is not enabled" in body:
            raise AttachError(
                f"PID {self.pid} runs with -XX:-EnableDynamicAgentLoading and takes no agent",
                "start it without that option, or under the probe with `offheap run`",
            )
        # HotSpot writes the result code and the body one after the other: a JVM may die in between.
        _refuse_gone(self._target, "sending it `load`")
        raise AttachError(
            f"PID {self.pid} could not load the probe: {_reason(body)}", "or start it with `offheap run`"
        )

    def _exchange(self, request: bytes, doing: str) -> tuple[int, str]:
        target = attach_listener.refresh(self._target, doing)
        attach_listener.refuse_stopped(target)
        deadline = time.monotonic() + self._reply_seconds
        with attach_listener.connect(target, self._attach_seconds) as connection:
            try:
                connection.settimeout(self._reply_seconds)
                connection.sendall(request)
                raw = _read_all(connection, deadline)
            except TimeoutError:
                attach_listener.refuse_stopped(attach_listener.refresh(target, doing))
                raise UserError(
                    f"PID {self.pid} gave no answer in {self._reply_seconds:g} s while offheap was {doing}",
                    "it may be in a long pause and may still act on the request: try again later",
                ) from None
            except (ConnectionResetError, BrokenPipeError):
                raw = b""
        if not raw:
            _refuse_gone(target, doing)
        return parse_reply(raw, self.pid)


def _refuse_gone(target: status.Status, doing: str) -> None:
    """TargetGone when the process has ended or is ending."""
    attach_listener.refresh(target, doing)
    # A dying JVM closes its socket before its PID disappears.
    time.sleep(_DYING_SECONDS)
    attach_listener.refresh(target, doing)


def encode_v1(command: str, *arguments: str) -> bytes:
    """A request of version 1; the caller checks its limits."""
    words = [command, *arguments, *[""] * (_V1_ARGUMENTS - len(arguments))]
    return b"1\0" + b"".join(os.fsencode(word) + b"\0" for word in words)


def encode_v2(command: str, *arguments: str) -> bytes:
    """A request of version 2."""
    body = b"".join(os.fsencode(word) + b"\0" for word in (command, *arguments))
    return b"2\0%d\0" % len(body) + body


def parse_reply(raw: bytes, pid: int) -> tuple[int, str]:
    """(result code, body) of a reply; AttachError when `raw` is no reply."""
    head, _, body = raw.partition(b"\n")
    if not re.fullmatch(rb"-?\d{1,10}", head):
        raise AttachError(
            f"PID {pid} closed the attach connection without an answer"
            if not raw
            else f"PID {pid} sent no valid reply",
            "it may be shutting down: try again",
        )
    code = int(head)
    if code == _BAD_VERSION:
        raise AttachError(f"PID {pid} does not speak this version of the attach protocol", "upgrade offheap")
    return code, body.decode("utf-8", "replace")


def _fits_v1(command: str, arguments: tuple[str, ...]) -> bool:
    return len(arguments) <= _V1_ARGUMENTS and all(
        len(os.fsencode(word)) <= _V1_ARGUMENT_BYTES for word in (command, *arguments)
    )


def _read_all(connection: socket.socket, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= _MOST_REPLY:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(65536)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise AttachError(
        f"its answer exceeds {_MOST_REPLY >> 20} MiB",
        "the process may not be a JVM: ps shows its command line",
    )


def _first_line(body: str) -> str:
    return next((line.strip() for line in body.splitlines() if line.strip()), "")


def _reason(body: str) -> str:
    """The line with the cause: HotSpot writes "X was not loaded.", then the dynamic linker's message."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return lines[-1] if lines else "it does not say why"


__all__ = ["AttachError", "AttachedVM", "TargetGone", "encode_v1", "encode_v2", "parse_reply"]
