"""Where a process's CPU time goes, by library and function: what `perf record` sampled (Debian's linux-perf).

A place's share of the samples is multiplied by the CPU of an iteration, which is measured beside it, so
that the places add up to that CPU.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.measuring import document
from harness.peers import variants

HERTZ = 1999
RECORD = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-o"]
SAMPLE = re.compile(r"\s*[0-9a-f]+ (?P<symbol>.+) \((?P<file>[^()]*(?:\(deleted\))?)\)\s*")
PROBE, KERNEL, CLOCK = "the probe", "the kernel", "the clock (vdso)"


@dataclass(frozen=True)
class Places:
    """The name of a file in the tables, by how the file's name begins; `others` for all other code."""

    by_file: Mapping[str, str]
    others: str

    def of(self, file: str) -> str:
        return next((place for start, place in self.by_file.items() if file.startswith(start)), self.others)

    def ordered(self) -> list[str]:
        return list(dict.fromkeys([*self.by_file.values(), self.others]))


IN_A_JVM = Places(
    {
        "liboffheap.so": PROBE,
        "libjvm.so": "libjvm.so",
        "libc.so.6": "libc.so.6: malloc, free, memset",
        "libzip.so": "zlib and its JNI functions",
        "libz.so": "zlib and its JNI functions",
        "libnetty_tcnative": "BoringSSL (Netty's)",
        "[kernel": KERNEL,
        "[vdso]": CLOCK,
    },
    "Java, compiled or interpreted",
)
IN_A_PROGRAM = Places(
    {"liboffheap.so": PROBE, "libc.so.6": "malloc and free of libc.so.6", "[kernel": KERNEL, "[vdso]": CLOCK},
    "the program itself",
)


@dataclass
class Spent:
    """CPU of one variant, all rounds together."""

    ns: float = 0.0
    iterations: float = 0
    places: Counter[str] = field(default_factory=Counter)
    functions: Counter[tuple[str, str]] = field(default_factory=Counter)

    def of(self, samples: int) -> float:
        """ns an iteration."""
        return self.ns / self.iterations * samples / max(self.places.total(), 1)

    def count(self, data: Path, known: Places) -> None:
        """Adds the samples that perf has written."""
        script = ["perf", "script", "-i", str(data), "-F", "ip,sym,dso"]
        text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            found = SAMPLE.fullmatch(line)
            if found:
                place = known.of(Path(found["file"]).name)
                self.places[place] += 1
                self.functions[place, found["symbol"].partition("+0x")[0]] += 1


def lacking() -> bool:
    """Whether perf is missing or may not sample, said on stderr."""
    try:
        tried = subprocess.run([*RECORD, os.devnull, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        print("no profile: perf is missing (Debian's linux-perf)", file=sys.stderr)
        return True
    if tried.returncode:
        why = tried.stderr.strip().partition("\n")[0]
        print(f"no profile: perf may not sample here: {why}", file=sys.stderr)
    return tried.returncode != 0


@contextlib.contextmanager
def perf_record(pid: int, data: Path) -> Iterator[None]:
    """All threads of the process, while the context is open."""
    with subprocess.Popen([*RECORD, str(data), "-p", str(pid)], stderr=subprocess.DEVNULL) as perf:
        try:
            time.sleep(0.5)  # until it watches all threads
            yield
        finally:
            # Otherwise perf runs as long as the process lives.
            perf.send_signal(signal.SIGINT)


def tables(what: str, spent: dict[str, Spent], known: Places, most: int) -> list[str]:
    """Markdown: ns an iteration by place, and by function, the `most` that grew most beside nothing."""
    return [
        *document.table([what, *spent], _by_place(spent, known)),
        "",
        *document.table(["function", *spent], _by_function(spent, known, most)),
    ]


def _by_place(spent: dict[str, Spent], known: Places) -> list[list[str]]:
    """A place without samples is left out."""
    met = [place for place in known.ordered() if any(s.places[place] for s in spent.values())]
    rows = [[place, *(_figure(s.of(s.places[place])) for s in spent.values())] for place in met]
    return [*rows, ["**together**", *(_figure(s.ns / s.iterations) for s in spent.values())]]


def _by_function(spent: dict[str, Spent], known: Places, most: int) -> list[list[str]]:
    base = spent[variants.BASE.name]
    more: dict[tuple[str, str], float] = {}
    for one in spent.values():
        for function, samples in one.functions.items():
            if function[0] not in (known.others, KERNEL):
                gained = one.of(samples) - base.of(base.functions[function])
                more[function] = max(more.get(function, 0.0), gained)
    largest = sorted(more, key=lambda function: -more[function])[:most]
    return [
        [
            f"`{name}`, {place.partition(':')[0]}",
            *(_figure(s.of(s.functions[place, name])) for s in spent.values()),
        ]
        for place, name in largest
    ]


def _figure(ns: float) -> str:
    return f"{ns:,.1f}" if 0 < ns < 100 else f"{ns:,.0f}"
