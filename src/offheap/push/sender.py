"""One profile, or one every so often while a recording grows; what the server misses waits in the spool."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from offheap.errors import UserError
from offheap.push.delivery import Away, Backoff, Delivery, Refused
from offheap.push.destination import Message, Series, message
from offheap.push.spool import Spool
from offheap.recording.model import Recording

Encode = Callable[[Recording], bytes]

# Seconds without a new snapshot: the recorder takes one each 30 s at least, so it is gone.
STILL_SECONDS = 180.0
# Seconds for what still waits when the recording has ended; a server that is away longer gets it next time.
LAST_SECONDS = 8.0


@dataclass
class Sender:
    """encode   the recording in the format that the destination takes
    sent     profiles that have arrived
    refused  why the server took none of those that are lost, the last reason
    """

    delivery: Delivery
    encode: Encode
    series: Series
    spool: Spool
    sent: int = field(default=0, init=False)
    refused: str = field(default="", init=False)

    def once(self, recording: Recording) -> None:
        """Sends what waits, then the recording as it is now; Away when the server does not take it."""
        one = self._message(recording)
        self.send_waiting()
        self.delivery.repeatedly(one)
        self.sent += 1

    def or_keep(self, recording: Recording) -> Away | None:
        """Likewise by one attempt each; what does not arrive waits, and the reason is returned.

        UserError: the server refuses, and nothing has arrived that would speak for the next profile.
        """
        one = self._message(recording)
        try:
            self.send_waiting()
            self.delivery.once(one)
        except Away as away:
            self.spool.add(one)
            return away
        except Refused as refused:
            if not self.sent:
                raise
            self._lose(refused)
            return None
        except UserError:
            # The credentials may be wrong: whoever mends them and starts again sends this one, too.
            self.spool.add(one)
            raise
        self.sent += 1
        return None

    def send_waiting(self) -> None:
        """By one attempt each; what the server refuses for good is lost, so that the next is sent."""
        for path, waiting in self.spool.waiting():
            try:
                self.delivery.once(waiting)
                self.sent += 1
            except Refused as refused:
                self._lose(refused)
            path.unlink(missing_ok=True)

    def _lose(self, refused: Refused) -> None:
        self.spool.lost += 1
        self.refused = refused.what

    def _message(self, recording: Recording) -> Message:
        info = recording.info
        end = info.start + info.duration_seconds
        return message(self.delivery.destination.kind, self.encode(recording), self.series, end)


def follow(
    sender: Sender,
    read: Callable[[], tuple[Recording, bool]],
    every: float,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Sends a profile every so many seconds until the recording ends, and one then; no snapshot twice.

    read  the recording as it is now, and whether it goes on; a killed recorder cannot say that it does not
    say   told when the server goes away, when it is back, and when it refuses a profile
    """
    length, still = -1.0, 0.0
    outage = _Outage(sender, say, sleep)
    while True:
        recording, goes_on = read()
        still += every
        if recording.info.duration_seconds > length:
            # One instant is sent once: a server adds up what has one time.
            length, still = recording.info.duration_seconds, 0.0
            outage.note(sender.or_keep(recording))
        del recording  # the next one is read without this one in memory
        gone = still > max(STILL_SECONDS, 2 * every)
        if gone:
            say("the recording does not grow any more")
        if gone or not goes_on:
            outage.wait(LAST_SECONDS, until_back=True)
            return
        outage.wait(every)


@dataclass
class _Outage:
    """Whether the server is away, and the attempts until it is back."""

    sender: Sender
    say: Callable[[str], None]
    sleep: Callable[[float], None]
    backoff: Backoff | None = None  # None: it is there
    least: float = 0.0  # seconds that the server asks to wait
    said: str = ""

    def note(self, failed: Away | None) -> None:
        if failed and self.backoff is None:
            self.backoff = Backoff()
            self.say(f"{failed}; profiles wait in {self.sender.spool.folder}")
        elif not failed and self.backoff is not None:
            self.backoff = None
            self.say("the server is back")
        self.least = failed.pause if failed else 0.0
        if self.sender.refused != self.said:
            self.said = self.sender.refused
            self.say(f"lost: {self.said}")

    def wait(self, seconds: float, *, until_back: bool = False) -> None:
        """Sleeps, and sends what waits after pauses that double with each attempt."""
        while seconds > 0 and self.backoff is not None:
            pause = min(self.backoff.next(self.least), seconds)
            self.sleep(pause)
            seconds -= pause
            try:
                self.sender.send_waiting()
                self.note(None)
            except Away as away:
                self.note(away)
        if seconds > 0 and not until_back:
            self.sleep(seconds)
