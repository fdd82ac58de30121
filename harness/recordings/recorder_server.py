"""Forks recorders that are killed: python recorder_server.py LIVE_FILE FOLDER, see test_recorder.py.

Each line `NAME` on standard input makes a process that records LIVE_FILE to FOLDER/NAME;
it prints `pid N`, then a line of JSON after each snapshot.  A fork saves the
second that a new interpreter needs for its imports.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

from offheap.recording.capture.recorder import Progress, record


def report(progress: Progress) -> None:
    print(json.dumps(dataclasses.asdict(progress)), flush=True)


def main() -> None:
    live_file, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            print(f"pid {os.getpid()}", flush=True)
            record(live_file, folder / line.strip(), every=0.05, on_progress=report)
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
