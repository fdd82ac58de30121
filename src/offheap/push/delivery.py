"""Sends messages, with a bounded number of attempts after pauses that double; follows no redirect."""

from __future__ import annotations

import http.client
import random
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message as HttpHeaders
from pathlib import Path
from typing import IO

from offheap.errors import UserError
from offheap.push.destination import Destination, Message, address, rejection

SECONDS = 20.0  # for one request: a server under load takes seconds
ATTEMPTS = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds between attempts
_MOST_ANSWER = 4096  # bytes of an answer that are read, for the error's text
# Request timeout, too many requests: the same request may succeed later.
_LATER = (408, 429)
# Bad request, too large, wrong type, wrong content: the server may still accept another message.
_THIS_ONE = (400, 413, 415, 422)
# A piece of an answer that people can read: some answer in protobuf.
_CHECK = "see what the server says of its limits, and check the URL"
_READABLE = re.compile(r"[^\x00-\x1f\x7f\ufffd]{3,}")


class Away(Exception):
    """The server does not answer, or asks for a later attempt; `pause`: seconds until then, if stated."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class RefusedByServer(UserError):
    """The server refuses this message for good; it may accept others."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the headers may be credentials for the first server only."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HttpHeaders,
        newurl: str,
    ) -> None:
        return None


@dataclass
class Backoff:
    """Pauses between attempts: each twice as long as the one before, up to LONGEST_PAUSE seconds."""

    _pause: float = FIRST_PAUSE

    def next(self, least: float = 0.0) -> float:
        """Seconds; `least`: what the server asks for."""
        # Random, so that many senders do not return at the same time.
        now = min(max(self._pause * random.uniform(0.5, 1.5), least), LONGEST_PAUSE)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return now


@dataclass(frozen=True)
class Delivery:
    """certificates  a file of the authorities to trust; None: the system's"""

    destination: Destination
    certificates: Path | None = None
    sleep: Callable[[float], None] = time.sleep

    def once(self, message: Message) -> None:
        """Raises Away if a later attempt may succeed, else RefusedByServer or another UserError."""
        target = address(self.destination, message.query)
        headers = {**self.destination.headers, "Content-Type": message.content_type}
        request = urllib.request.Request(target, data=message.body, headers=headers, method="POST")
        try:
            with self._opener().open(request, timeout=SECONDS) as answer:
                said = answer.read(_MOST_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error)
        except ssl.SSLCertVerificationError as error:
            raise self._untrusted(error) from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise self._untrusted(error.reason) from None
            raise Away(f"{self.destination.base} does not answer: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Away(f"{self.destination.base} does not answer: {error}") from None
        rejected = rejection(self.destination.kind, said)
        if rejected:
            raise RefusedByServer(f"{self.destination.base} rejects the profile: {rejected}", _CHECK)

    def repeatedly(self, message: Message, attempts: int = ATTEMPTS) -> None:
        """`once`, repeated a bounded number of times; Away after the last attempt."""
        backoff = Backoff()
        for left in reversed(range(attempts)):
            try:
                self.once(message)
                return
            except Away as away:
                if not left:
                    raise
                self.sleep(backoff.next(away.pause))

    def _opener(self) -> urllib.request.OpenerDirector:
        try:
            context = ssl.create_default_context(cafile=str(self.certificates) if self.certificates else None)
        except (OSError, ssl.SSLError) as error:
            why = f"{self.certificates} holds no certificates: {error}"
            raise UserError(why, "give a PEM file with --ca") from None
        return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect())

    def _refused(self, error: urllib.error.HTTPError) -> None:
        try:
            body = error.read(_MOST_ANSWER)
        except (OSError, http.client.HTTPException):
            body = b""  # the status says enough
        said = _READABLE.search(body.decode("utf-8", "replace").strip())
        why = f"{self.destination.base} answers {error.code} {error.reason}" + (
            f": {said[0][:200]}" if said else ""
        )
        if error.code in _LATER or error.code >= 500:
            raise Away(why, _seconds(error.headers.get("Retry-After", "")))
        if 300 <= error.code < 400:
            raise UserError(f"{why}, a redirect, which is not followed", "give the URL that it names")
        if error.code in _THIS_ONE:
            raise RefusedByServer(why, _CHECK)
        raise UserError(why, "check the URL and --headers")

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> UserError:
        why = f"the certificate of {self.destination.base} is not trusted: {error.verify_message}"
        return UserError(why, "give the authority's file with --ca")


def _seconds(text: str) -> float:
    return min(float(text), LONGEST_PAUSE) if text.isdecimal() else 0.0
