"""A live file as a Recording: one snapshot, of a living or a dead process."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

from offheap.probe.live_files import recorded_process
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc import status
from offheap.recording.build_recording import assemble
from offheap.recording.capture.info import describe, elapsed
from offheap.recording.capture.snapshots import Snapshots
from offheap.recording.model import Recording
from offheap.recording.names.naming import Naming, symbolizer


def load(path: Path) -> Recording:
    """Raises UserError when it is no live file, or damaged."""
    with LiveFile(path) as live_file, ExitStack() as stack:
        header = live_file.header
        pid = recorded_process.find(header)
        naming = stack.enter_context(closing(Naming(live_file, symbolizer(pid))))
        time = elapsed(header, pid is not None)
        snapshot = Snapshots(live_file, naming).take(time, pid=pid, final=True)
        births = snapshot.live["birth"]
        info = describe(
            path,
            live_file.header,
            alive=pid is not None,
            # The heartbeat of a killed process may lie a little before its last block.
            duration=max(time, float(births.max()) if len(births) else 0.0),
            properties=live_file.properties(),
            command_line=status.command_line(pid) if pid is not None else (),
            problems=naming.problems(),
            memory_limit=recorded_process.memory_limit(pid),
        )
        return assemble(
            info,
            snapshot.stacks,
            snapshot.chains.items(),
            live_file.threads(),
            naming.modules(),
            snapshot.live,
            snapshot.series,
            snapshot.process,
        )
