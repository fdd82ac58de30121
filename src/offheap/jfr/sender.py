"""Sends a growing recording's figures into the JVM's own JFR recordings, at intervals.

A thread of the recorder's process reads the recording; each request is one attach to
the JVM, whose attach listener commits the events.  Nothing in the JVM runs between two requests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from offheap.errors import UserError
from offheap.jfr.event_text import requests
from offheap.jfr.recorded_events import events
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.listener.attach_listener import NoProcess, TargetGone
from offheap.probe import control
from offheap.recording.names.naming import Symbolizer, symbolizer
from offheap.recording.storage import reader

_FIRST_SECONDS = 2.0  # the recorder has read the owners of RSS by then
_SHARE_OF_CPU = 0.05  # of one CPU, for reading and judging the recording: as much as the recorder has
_REPLY_SECONDS = 10.0  # a JVM that does not answer for longer gets no event this time
_FAILURES = 3  # in a row, before this gives up
_ENDING_SECONDS = 2.0  # a request that meets the end of the recording fails
_CLOSE_SECONDS = _REPLY_SECONDS + _ENDING_SECONDS

NOTHING = "no event reached JDK Flight Recorder"
_LASTING = {
    control.NO_JFR: f"{NOTHING}: the JVM runs without the module jdk.jfr",
    control.JFR_FAILED: "JDK Flight Recorder refused an event: there are no more events from then on",
}
IDLE = f"{NOTHING}: it had no recording that takes them"


class JfrSender:
    """Runs beside a recorder (recording/capture/companion.py).

    pid        of the JVM that the probe records
    recording  the directory that the recorder writes
    every      seconds between two sets of events
    say        takes one line for the user when no more events follow
    """

    def __init__(self, pid: int, recording: Path, every: float, say: Callable[[str], None]) -> None:
        self._pid = pid
        self._recording = recording
        self._every = every
        self._say = say
        self._note = ""
        self._sent = -1.0  # seconds since the start: of the last snapshot that was sent
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jfr-events", daemon=True)
        self._thread.start()

    def notes(self) -> tuple[str, ...]:
        """Sentences about what is missing in JFR's recording; complete after `close`."""
        return (self._note,) if self._note else ()

    def close(self) -> None:
        """Call before the recorder ends its files."""
        self._stop.set()
        self._thread.join(_CLOSE_SECONDS)
        if self._sent < 0 and not self._note:
            self._note = IDLE
            self._say(IDLE)

    def _run(self) -> None:
        pause, failures = min(self._every, _FIRST_SECONDS), 0
        with closing(symbolizer(None)) as names:
            while not self._stop.wait(pause):
                used = time.thread_time()
                try:
                    code = self._send(names)
                    failures = 0
                except (NoProcess, TargetGone, control.NotRecording):
                    return
                except (UserError, OSError) as error:
                    what = error.what if isinstance(error, UserError) else str(error)
                    failures += 1
                    if self._stop.wait(_ENDING_SECONDS):
                        return
                    if failures == _FAILURES:
                        self._give_up(f"JDK Flight Recorder gets no more events: {what}")
                        return
                    code = control.JFR_IDLE
                if code in _LASTING:
                    self._give_up(_LASTING[code])
                    return
                pause = max(self._every, (time.thread_time() - used) / _SHARE_OF_CPU)

    def _give_up(self, note: str) -> None:
        self._note = note
        self._say(note)

    def _send(self, names: Symbolizer) -> int:
        """Commits what is new; returns OK, or the reason of JFR's."""
        present = control.loaded(self._pid)
        if present is None or present.live_file is None:
            raise control.result_error(self._pid, control.NOT_RECORDING)
        vm = AttachedVM(self._pid, reply_seconds=_REPLY_SECONDS)
        # Judging the recording costs more than asking whether JFR records.
        code = self._ask(vm, present.libraries[0], "jfr")
        if code != control.OK:
            return code
        recording = reader.load(self._recording, names)
        if not len(recording.process) or recording.info.duration_seconds <= self._sent:
            return code
        for request in requests(events(recording)):
            if self._stop.is_set():
                return code
            code = self._ask(vm, present.libraries[0], f"jfr={request}")
            if code != control.OK:
                return code
        self._sent = recording.info.duration_seconds
        return code

    def _ask(self, vm: AttachedVM, library: str, request: str) -> int:
        code = control.ask(vm, library, request)
        if code not in (control.OK, control.JFR_IDLE, *_LASTING):
            raise control.result_error(self._pid, code)
        return code
