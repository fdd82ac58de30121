"""Sends one profile, or one at intervals while a recording grows; undelivered profiles wait in the spool."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from offheap.errors import UserError
from offheap.push.delivery import Away, Backoff, Delivery, RefusedByServer
from offheap.push.destination import Message, Series, message
from offheap.push.spool import Spool
from offheap.recording.model import Recording

Encode = Callable[[Recording], bytes]

# Seconds without a new snapshot after which the recorder is gone: it takes one at least each 30 s.
STILL_SECONDS = 180.0
# Seconds for waiting profiles after the end of the recording; a server that is away longer gets them next
# time.
LAST_SECONDS = 8.0


@dataclass
class Sender:
    """encode   the recording in the format that the destination takes
    sent     profiles that have arrived
    refused  why the server refused lost profiles, the last reason
    """

    delivery: Delivery
    encode: Encode
    series: Series
    spool: Spool
    sent: int = field(default=0, init=False)
    refused: str = field(default="", init=False)

    def once(self, recording: Recording) -> None:
        """Sends the waiting profiles, then the recording as it is now; Away if the server does not answer."""
        one = self._message(recording)
        self.send_waiting()
        self.delivery.repeatedly(one)
        self.sent += 1

    def or_keep(self, recording: Recording) -> Away | None:
        """The same with one attempt each; a profile that does not arrive waits, and the reason is returned.

        UserError: the server refuses, and no profile has arrived yet that would make the next attempt
        worthwhile.
        """
        one = self._message(recording)
        try:
            self.send_waiting()
            self.delivery.once(one)
        except Away as away:
            self.spool.add(one)
            return away
        except RefusedByServer as refused:
            if not self.sent:
                raise
            self._lose(refused)
            return None
        except UserError:
            # The credentials may be wrong: the next run, with the right ones, sends this profile as well.
            self.spool.add(one)
            raise
        self.sent += 1
        return None

    def send_waiting(self) -> None:
        """Sends with one attempt each; a profile that the server refuses is lost, and the next is sent."""
        for path, waiting in self.spool.waiting():
            try:
                self.delivery.once(waiting)
                self.sent += 1
            except RefusedByServer as refused:
                self._lose(refused)
            path.unlink(missing_ok=True)

    def _lose(self, refused: RefusedByServer) -> None:
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
    """Sends a profile at intervals until the recording ends, and one of its end; no snapshot twice.

    read  returns the recording as it is now, and whether it continues (as far as known: the recorder may be
    killed) say   takes a line when the server goes away, when it is back, and when it refuses a profile
    """
    length, still = -1.0, 0.0
    outage = _Outage(sender, say, sleep)
    while True:
        recording, goes_on = read()
        still += every
        if recording.info.duration_seconds > length:
            # One instant is sent once: a server sums profiles of one time.
            length, still = recording.info.duration_seconds, 0.0
            outage.note(sender.or_keep(recording))
        del recording  # frees this one before the next one is read
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
        """Sleeps, and sends waiting profiles after pauses that double with each attempt."""
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
