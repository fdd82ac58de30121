"""An HTTP server that answers as a test says: the pytest fixture `serve`."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest


@dataclass
class AnsweringServer:
    """`answers`: the statuses of the next requests, 200 afterwards; `says`: the body of an answer."""

    url: str = ""
    says: bytes = b""
    answers: list[int] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


# serve(context): starts a server, over TLS with a context.
Serve = Callable[..., AnsweringServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[http.server.ThreadingHTTPServer] = []

    def start(context: ssl.SSLContext | None = None) -> AnsweringServer:
        state = AnsweringServer()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = state.answers.pop(0) if state.answers else 200
                if status == 200:
                    state.requests.append(
                        (self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                    )
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", state.url + "/elsewhere")
                self.send_header("Content-Length", str(len(state.says)))
                self.end_headers()
                self.wfile.write(state.says)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        state.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}"
        return state

    yield start
    for server in running:
        server.shutdown()
        server.server_close()
