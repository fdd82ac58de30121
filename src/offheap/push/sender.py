"""One profile, or one every so often while a recording grows; what the server misses waits in the spool."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from offheap.push.delivery import Away, Delivery
from offheap.push.destination import Message, Series, message
from offheap.push.spool import Spool
from offheap.recording.model import Recording

Encode = Callable[[Recording], bytes]

# Seconds without a new snapshot: the recorder takes one each 30 s at least, so it is gone.
STILL_SECONDS = 180.0


@dataclass
class Sender:
    """encode  the recording in the format that the destination takes (FORMATS)
    sent    profiles that have arrived
    """

    delivery: Delivery
    encode: Encode
    series: Series
    spool: Spool
    sent: int = field(default=0, init=False)

    def once(self, recording: Recording) -> None:
        """Sends what waits, then the recording as it is now; Away when the server does not take it."""
        self._send_waiting()
        self.delivery.repeatedly(self._message(recording))
        self.sent += 1

    def or_keep(self, recording: Recording) -> Away | None:
        """Likewise by one attempt each; what does not arrive waits, and the reason is returned."""
        one = self._message(recording)
        try:
            self._send_waiting()
            self.delivery.once(one)
        except Away as away:
            self.spool.add(one)
            return away
        self.sent += 1
        return None

    def _send_waiting(self) -> None:
        for path, waiting in self.spool.waiting():
            self.delivery.once(waiting)
            path.unlink(missing_ok=True)
            self.sent += 1

    def _message(self, recording: Recording) -> Message:
        info = recording.info
        kind = self.delivery.destination.kind
        end = info.start + info.duration_seconds
        return message(kind, self.encode(recording), self.series, info.start, end)


def follow(
    sender: Sender,
    read: Callable[[], tuple[Recording, bool]],
    every: float,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Sends a profile every so many seconds until the recording ends, and one then.

    read  the recording as it is now, and whether it goes on; a killed recorder cannot say that it does not
    say   told once when the server goes away, and once when it is back
    """
    away, length, still = False, -1.0, 0.0
    while True:
        recording, goes_on = read()
        still = still + every if recording.info.duration_seconds <= length else 0.0
        length = recording.info.duration_seconds
        failed = sender.or_keep(recording)
        if failed and not away:
            say(f"{failed}; profiles wait in {sender.spool.folder}")
        if away and not failed:
            say("the server is back")
        away = failed is not None
        if still > max(STILL_SECONDS, 2 * every):
            say("the recording does not grow any more")
            return
        if not goes_on:
            return
        sleep(every)
