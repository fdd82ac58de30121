"""Profiles that wait on disk for their server: the bound, the order, a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from offheap.errors import UserError
from offheap.push.destination import Message
from offheap.push.spool import Spool


def test_the_spool_is_bounded_and_keeps_the_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "waits", 300)
    for number in range(5):
        spool.add(Message(f"n={number}", "text/plain", bytes(50)))
    kept = [one.query for _, one in spool.waiting()]
    assert kept == ["n=3", "n=4"] or kept == ["n=2", "n=3", "n=4"]
    assert spool.lost == 5 - len(kept)
    assert (tmp_path / "waits").stat().st_mode & 0o777 == 0o700
    spool.add(Message("", "text/plain", bytes(400)))
    assert spool.lost == 6 - len(kept), "a message beyond the limit is lost, and costs no other"
    (tmp_path / "waits" / f"{1:020d}.message").write_bytes(b"\xff no message")
    assert [one.query for _, one in spool.waiting()] == kept
    assert not list(Spool(tmp_path / "waits", 300, "otlp http://localhost").waiting()), "another server's"
    (tmp_path / "waits").chmod(0o777)
    with pytest.raises(UserError, match="--spool"):
        spool.add(Message("", "text/plain", b""))


def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    script = f"""
import resource
from pathlib import Path
from offheap.errors import UserError
from offheap.push.destination import Message
from offheap.push.spool import Spool
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    Spool(Path({str(tmp_path / "waits")!r}), 1 << 20).add(Message("", "text/plain", bytes(5000)))
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "give another folder with --spool" in done.stdout, done.stderr
    assert not list((tmp_path / "waits").iterdir())
