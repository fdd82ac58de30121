"""An HTTP server for whoever may connect: few threads, few connections, little time for each.

`http.server` gives each connection a thread, for as long as the client likes.  Here one thread waits for all
requests, and one answers them, each when it is there in full.
"""

from __future__ import annotations

import io
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

MOST_CONNECTIONS = 64  # beyond that the one that has waited longest is closed
SECONDS = 5.0  # for a request to arrive, and for its answer to be taken
_MOST_REQUEST = 16 << 10  # bytes; Prometheus sends some 300
_MOST_READY = 16  # requests that wait for their answer
_POLL_SECONDS = 0.5
_END = b"\r\n\r\n"

Application = Callable[..., Iterable[bytes]]


@dataclass(slots=True)
class _Client:
    connection: socket.socket
    address: Any
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)
    request: bytes = b""


class BoundedServer:
    """Serves a WSGI application from its creation on until `close`; OSError when the address is taken."""

    def __init__(self, host: str, port: int, application: Application) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
        self._listener.setblocking(False)
        self.server_name, self.server_port = self._listener.getsockname()[:2]
        self.base_environ: dict[str, str] = {
            "SERVER_NAME": self.server_name,
            "SERVER_PORT": str(self.server_port),
            "GATEWAY_INTERFACE": "CGI/1.1",
            "REMOTE_HOST": "",
            "CONTENT_LENGTH": "",
            "SCRIPT_NAME": "",
        }
        self._application = application
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}  # the one that waits longest first
        self._ready: queue.Queue[_Client | None] = queue.Queue(_MOST_READY)
        self._closing = False
        self._threads = [
            threading.Thread(target=target, name=f"offheap {target.__name__}", daemon=True)
            for target in (self._wait, self._answer)
        ]
        for thread in self._threads:
            thread.start()

    def get_app(self) -> Application:
        """For wsgiref's handler."""
        return self._application

    def close(self) -> None:
        """Closes the address and every connection; an answer that is being made is not waited for."""
        self._closing = True
        self._threads[0].join()

    def _wait(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(_POLL_SECONDS):
                if key.fileobj is self._listener:
                    self._accept()
                elif client := self._clients.get(key.fileobj):  # type: ignore[call-overload]
                    self._read(client)  # else it was dropped for one that has come in this very round
            now = time.monotonic()
            for client in [client for client in self._clients.values() if client.deadline < now]:
                self._drop(client)
        for client in list(self._clients.values()):
            self._drop(client)
        self._listener.close()
        self._selector.close()
        with suppress(queue.Full):
            self._ready.put_nowait(None)

    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
        except OSError:  # it has gone, or there are too many open files
            return
        connection.setblocking(False)
        if len(self._clients) >= MOST_CONNECTIONS:
            self._drop(next(iter(self._clients.values())))
        self._clients[connection] = _Client(connection, address)
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, client: _Client) -> None:
        try:
            part = client.connection.recv(_MOST_REQUEST)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        client.request += part
        if _END in client.request:
            self._forget(client)
            try:
                self._ready.put_nowait(client)
            except queue.Full:
                client.connection.close()
        elif not part or len(client.request) > _MOST_REQUEST:
            self._drop(client)

    def _forget(self, client: _Client) -> None:
        self._selector.unregister(client.connection)
        del self._clients[client.connection]

    def _drop(self, client: _Client) -> None:
        self._forget(client)
        client.connection.close()

    def _answer(self) -> None:
        while (client := self._ready.get()) is not None:
            with client.connection, suppress(OSError):  # it may have gone, or take its answer too slowly
                client.connection.settimeout(SECONDS)
                _Handler(client, self)


class _Handler(WSGIRequestHandler):
    """Answers a request that has been read already."""

    def __init__(self, client: _Client, server: BoundedServer) -> None:
        self._request = client.request
        super().__init__(client.connection, client.address, server)  # type: ignore[arg-type]

    def setup(self) -> None:
        self.connection = self.request
        self.rfile = io.BytesIO(self._request)
        self.wfile = _Output(self.connection)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads a log of scrapes."""


class _Output(io.BufferedIOBase):
    """What is written is sent at once, within the connection's time limit."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._connection.sendall(data)
        return len(data)
