"""Keeps 60 blocks of 10,000 bytes in 1.2 s, one of 500,000 in a thread, and frees what it compresses."""

import os
import sys
import threading
import time
import zlib

kept: list[bytearray] = []


def keep_one() -> None:
    kept.append(bytearray(10_000))


def forget(rounds: int) -> None:
    for _ in range(rounds):
        keep_one()
        zlib.compress(bytes(20_000))
        time.sleep(0.02)


def worker() -> None:
    kept.append(bytearray(500_000))
    time.sleep(0.5)


other = threading.Thread(target=worker, name="worker")
other.start()
forget(60)
other.join()
if sys.argv[1:] == ["killed"]:
    os.kill(os.getpid(), 9)
