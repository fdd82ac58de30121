"""Events as the probe reads them from an attach request (probe/jfr/event_text.h)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_EVENT_SEPARATOR, _FIELD_SEPARATOR = "\x1e", "\x1f"
# JDK 23 and older take 1,024 bytes as an argument; the request's own word comes before the events.
REQUEST_BYTES = 1000
_MOST_EVENTS = 32  # EVENTS_AT_ONCE
_NAME_BYTES = 120  # of names, verdicts and kinds
_PATH_BYTES = 400  # of a call path: the innermost frames matter most
_NOT_TEXT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]|[\ud800-\udfff]|[^\x00-\uffff]")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class NativeMemory:
    """What one library holds of one kind.  `live` and `allocated` are bytes."""

    library: str
    kind: str
    live: int
    blocks: int
    allocated: int

    def fields(self) -> tuple[str, ...]:
        figures = self.live, self.blocks, self.allocated
        return "0", clean(self.library), clean(self.kind), *map(_number, figures)


@dataclass(frozen=True, slots=True)
class LeakSuspect:
    """A site that leaks or grows.  `live` is bytes, `growth` bytes per second, `confidence` 0 to 1.

    path    its frames, innermost first, a line each
    """

    rank: int
    verdict: str
    confidence: float
    kind: str
    site: str
    library: str
    live: int
    blocks: int
    growth: int
    path: str

    def fields(self) -> tuple[str, ...]:
        return (
            "1",
            _number(self.rank),
            clean(self.verdict),
            _number(round(self.confidence * _MILLION)),
            clean(self.kind),
            clean(self.site),
            clean(self.library),
            _number(self.live),
            _number(self.blocks),
            _number(self.growth),
            clean(self.path, _PATH_BYTES),
        )


@dataclass(frozen=True, slots=True)
class ResidentSet:
    """The bytes in memory of one owner, and of the process."""

    owner: str
    resident: int
    total: int

    def fields(self) -> tuple[str, ...]:
        return "2", clean(self.owner), _number(self.resident), _number(self.total)


Event = NativeMemory | LeakSuspect | ResidentSet


def requests(events: Iterable[Event]) -> Iterator[str]:
    """The texts of requests, each short enough for every JVM."""
    batch: list[str] = []
    size = 0
    for event in events:
        text = _FIELD_SEPARATOR.join(event.fields())
        length = len(text.encode()) + 1
        if batch and (size + length > REQUEST_BYTES or len(batch) == _MOST_EVENTS):
            yield _EVENT_SEPARATOR.join(batch)
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield _EVENT_SEPARATOR.join(batch)


def clean(text: str, most: int = _NAME_BYTES) -> str:
    """The text without characters that JNI's NewStringUTF does not accept, of bounded length in UTF-8."""
    encoded = _NOT_TEXT.sub("?", text).encode()
    return encoded[:most].decode(errors="ignore") if len(encoded) > most else encoded.decode()


def _number(value: int) -> str:
    return str(max(min(value, 10**18 - 1), 1 - 10**18))
