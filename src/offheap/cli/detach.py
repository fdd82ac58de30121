"""`offheap detach`: stops the probe in a running JVM."""

from __future__ import annotations

import argparse
import json

from offheap.report.text.printable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Stop the probe in a running JVM and restore every function pointer it replaced.  "
        "What it recorded stays in its live file."
    )
    parser.epilog = """examples:
  offheap detach 4711
  offheap detach OrderService"""
    parser.add_argument("target", metavar="PID|NAME", help="a process, or part of a main class or jar name")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.detach/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.inspect import discovery
    from offheap.probe import control
    from offheap.probe.live_files import stale_files
    from offheap.probe.sole_recorder import recorder_of

    stale_files.sweep()
    pid = discovery.resolve(args.target)
    stopped = control.detach(pid, recorder_of)
    # A recorder removes the live file at its end.
    live_file = str(stopped.live_file) if stopped.live_file and stopped.recorder is None else None
    if args.json:
        result = {
            "schema": "offheap.detach/1",
            "pid": pid,
            "probe": stopped.state,
            "live_file": live_file,
            "recorder_pid": stopped.recorder,
        }
        print(json.dumps(result, indent=2))
        return 0
    if stopped.state == "stopped":
        print(f"the probe in PID {pid} is stopped; every function pointer has its original value")
    else:
        print(
            f"the probe in PID {pid} is stopped; it was preloaded, so its hooks stay until the process ends"
        )
    if stopped.recorder is not None:
        print(f"the recording by PID {stopped.recorder} ends here and is kept")
    if live_file:
        print(f"what it recorded: offheap leaks {printable(live_file)}")  # in a folder of the JVM's choice
    return 0
