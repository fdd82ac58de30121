"""bootstrap_pip.py, which sets up a virtual environment where Python has no ensurepip."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import bootstrap_pip
import pytest


@contextlib.contextmanager
def index(folder: Path, wheel: bytes) -> Iterator[str]:
    """The address of a package index that has one wheel of pip."""
    (folder / "simple" / "pip").mkdir(parents=True)
    (folder / "files").mkdir()
    (folder / "files" / bootstrap_pip.WHEEL).write_bytes(wheel)
    links = f'<a href="../../files/pip-0.1-py3-none-any.whl">0</a> <a href="../../files/{bootstrap_pip.WHEEL}'
    (folder / "simple" / "pip" / "index.html").write_text(f'{links}#sha256=0&amp;x">1</a>')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple/"
    finally:
        server.shutdown()
        server.server_close()


def test_the_wheel_comes_from_the_users_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap_pip, "SHA256", hashlib.sha256(b"a wheel").hexdigest())
    with index(tmp_path, b"a wheel") as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        assert bootstrap_pip.wheel() == b"a wheel"


def test_another_wheel_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with index(tmp_path, b"another") as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        with pytest.raises(SystemExit) as refused:
            bootstrap_pip.main()
    assert "is not the one expected" in str(refused.value)
    assert "install your distribution's python3-venv package" in str(refused.value)
    with pytest.raises(SystemExit, match="pip cannot be fetched"):
        bootstrap_pip.main()  # that index is gone
