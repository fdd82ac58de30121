"""Debug files from debuginfod servers, by build-id.

The protocol: debuginfod(8) of elfutils, `GET /buildid/BUILDID/debuginfo` and `.../executable`.  Only
build-ids are sent.  A server is not trusted: what it sends is bounded in size and time, and counts only if it
is an ELF file of the build-id (the caller checks that).
"""

from __future__ import annotations

import contextlib
import http
import http.client
import ipaddress
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from offheap.errors import UserError
from offheap.proc.time_limit import within

VARIABLE = "DEBUGINFOD_URLS"
MOST_FILE = 2 << 30  # bytes of one file: libjvm's debug file has 700 MB
MOST_BYTES = 8 << 30  # of all files
SECONDS = 900.0  # for all requests
_ANSWER_SECONDS = 30.0  # for the next bytes of an answer
_PIECE = 1 << 20  # bytes
_MOST_SERVERS = 16
_MOST_REDIRECTS = 5

_BUILD_ID = re.compile(r"[0-9a-f]{8,128}")


def servers(text: str, *, insecure: bool = False) -> tuple[str, ...]:
    """The URLs in a text, separated by spaces as in $DEBUGINFOD_URLS.

    UserError: none, no URL of HTTPS, or credentials in it.  HTTP will do for this machine, and `insecure`.
    """
    found = tuple(dict.fromkeys(url.rstrip("/") for url in text.split()))
    if not 0 < len(found) <= _MOST_SERVERS:
        raise UserError(f"{len(found)} URLs of debuginfod servers", f"give 1 to {_MOST_SERVERS}")
    for url in found:
        why = _refused(url, insecure)
        if why:
            raise UserError(f"{_shown(url)} {why}", "give --debuginfod https://HOST")
    return found


def _refused(url: str, insecure: bool) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "is not the URL of a server"
    if parts.username is not None or parts.password is not None:
        return "has credentials, which every user of this machine can see"
    if parts.query or parts.fragment:
        return "has more than a path"
    if parts.scheme == "http" and not insecure and not _loopback(host):
        return "is not encrypted: anyone on the network path can choose the names (--insecure allows it)"
    return ""


def _shown(url: str) -> str:
    """Without credentials."""
    return re.sub(r"//[^/]*@", "//***@", url)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to where the first request might have gone."""

    max_redirections = _MOST_REDIRECTS

    def __init__(self, insecure: bool) -> None:
        self._insecure = insecure

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        parts = urllib.parse.urlsplit(newurl)
        # A server that stores its files elsewhere signs the query of the URL.
        if _refused(parts._replace(query="", fragment="").geturl(), self._insecure):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class Debuginfod:
    """Files of servers, in an empty folder of the caller's.

    problems  sentences: servers that did not answer, files that were too large
    """

    def __init__(
        self,
        urls: Sequence[str],
        folder: Path,
        *,
        insecure: bool = False,
        most: int = MOST_FILE,
        seconds: float = SECONDS,
    ) -> None:
        self._urls = urls
        self._most = most
        self._folder = folder
        self._opener = urllib.request.build_opener(_Redirects(insecure))
        self._deadline = time.monotonic() + seconds
        self._left = MOST_BYTES
        self._away: set[str] = set()
        self.problems: list[str] = []

    def find(self, build_id: str) -> Iterator[Path]:
        """The debug file of a build-id, or, if no server has it, the image itself: until the next call."""
        for file in self._folder.iterdir():
            file.unlink()
        if not _BUILD_ID.fullmatch(build_id):
            return
        for kind in ("debuginfo", "executable"):
            for url in self._urls:
                if fetched := self._fetched(url, build_id, kind):
                    yield fetched
                    return

    def _fetched(self, url: str, build_id: str, kind: str) -> Path | None:
        left = self._deadline - time.monotonic()
        if url in self._away:
            return None
        if left <= 0 or self._left <= 0:
            self._complain(url, "has sent as much, or as long, as it may")
            return None
        request = urllib.request.Request(
            f"{url}/buildid/{build_id}/{kind}", headers={"User-Agent": "offheap", "Accept": "*/*"}
        )
        file = self._folder / f"{build_id}.{kind}"
        patience = min(_ANSWER_SECONDS, left)
        try:
            # The time limit of a socket begins anew with each byte.
            answer = within(
                patience, lambda: self._opener.open(request, timeout=patience), lambda late: late.close()
            )
            with answer:
                why = self._store(answer, file)
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                if error.code == http.HTTPStatus.NOT_FOUND:
                    return None
                why = f"answers {error.code} {error.reason}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = f"does not answer: {getattr(error, 'reason', None) or error}"
        if why:
            file.unlink(missing_ok=True)
            self._complain(url, why)
            return None
        return file

    def _store(self, answer: http.client.HTTPResponse, file: Path) -> str:
        """Why the file is not all there; "" when it is."""
        announced = answer.headers.get("Content-Length", "")
        size = 0
        with open(file, "wb") as out:
            while piece := answer.read1(_PIECE):
                size += len(piece)
                self._left -= len(piece)
                if size > self._most or self._left < 0 or time.monotonic() > self._deadline:
                    return "sends more, or for longer, than it may"
                out.write(piece)
        return "breaks off" if announced.isdecimal() and int(announced) != size else ""

    def _complain(self, url: str, why: str) -> None:
        """Asks a server no more: each build-id would take as long to fail."""
        self._away.add(url)
        self.problems.append(f"{url} {why}")
