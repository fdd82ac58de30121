"""Sends messages: repeated after a pause that doubles, never for ever, never to another server."""

from __future__ import annotations

import http.client
import random
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
from offheap.push.destination import Destination, Message, address

SECONDS = 20.0  # for one request: a server under load takes some
ATTEMPTS = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds
_MOST_ANSWER = 4096  # bytes of an answer that are read, for the error's text
_TOO_MANY = 429


class Away(Exception):
    """The server does not answer, or asks to come again later; `pause`: seconds until then, if it says so."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the headers may be credentials of the first server alone."""

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


@dataclass(frozen=True)
class Delivery:
    """certificates  a file of the authorities to trust; None: the system's"""

    destination: Destination
    certificates: Path | None = None
    sleep: Callable[[float], None] = time.sleep

    def once(self, message: Message) -> None:
        """Away when a later attempt may succeed, UserError when it cannot."""
        target = address(self.destination, message.query)
        headers = {**self.destination.headers, "Content-Type": message.content_type}
        request = urllib.request.Request(target, data=message.body, headers=headers, method="POST")
        try:
            with self._opener().open(request, timeout=SECONDS) as answer:
                answer.read(_MOST_ANSWER)
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

    def repeatedly(self, message: Message, attempts: int = ATTEMPTS) -> None:
        """`once`, up to so many times.  Away after the last one."""
        pause = _FIRST_PAUSE
        for left in reversed(range(attempts)):
            try:
                self.once(message)
                return
            except Away as away:
                if not left:
                    raise
                # At random, so that many senders do not come back at one time.
                self.sleep(min(max(pause * random.uniform(0.5, 1.5), away.pause), _LONGEST_PAUSE))
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _opener(self) -> urllib.request.OpenerDirector:
        try:
            context = ssl.create_default_context(cafile=str(self.certificates) if self.certificates else None)
        except (OSError, ssl.SSLError) as error:
            why = f"{self.certificates} holds no certificates: {error}"
            raise UserError(why, "give a PEM file with --ca") from None
        return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect())

    def _refused(self, error: urllib.error.HTTPError) -> None:
        said = error.read(_MOST_ANSWER).decode("utf-8", "replace").strip().splitlines()
        why = f"{self.destination.base} answers {error.code} {error.reason}" + (
            f": {said[0][:200]}" if said else ""
        )
        if error.code == _TOO_MANY or error.code >= 500:
            raise Away(why, _seconds(error.headers.get("Retry-After", "")))
        if 300 <= error.code < 400:
            raise UserError(f"{why}, a redirect, which is not followed", "give the URL that it names")
        raise UserError(why, "check the URL and --headers")

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> UserError:
        why = f"the certificate of {self.destination.base} is not trusted: {error.verify_message}"
        return UserError(why, "give the authority's file with --ca")


def _seconds(text: str) -> float:
    return min(float(text), _LONGEST_PAUSE) if text.isdecimal() else 0.0
