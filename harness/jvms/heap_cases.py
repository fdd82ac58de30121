"""Programs of the zoo that hold Java objects, recorded with --java-heap, and what `leaks` says of them."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.command_line import offheap
from harness.jvms import collectors, java_homes
from harness.jvms import zoo as zoo_programs
from harness.jvms.zoo import Held, Program, Running, Zoo
from harness.warm_command import warm

PROGRAMS = {name: program for name, program in zoo_programs.programs().items() if program.java_heap}
LEAKING = [name for name, program in PROGRAMS.items() if program.leaks]
HEALTHY = [name for name, program in PROGRAMS.items() if not program.leaks]
JDKS = (11, 17, 21, 25)
WAYS = ("run", "attach")
# Small objects, too, are sampled often in a short recording.
OPTIONS = ("--java-heap-interval", "16KiB")
SECONDS = 20.0
# The probe removes the objects that a collection freed soon after it, and the recorder reads once a second.
SWEPT_SECONDS = 2.0
START_SECONDS = 60.0
# 4 MB of new objects: a young collection every second or two.
_GENERATIONS = ("-Xmn4m",)
_HEAPS: dict[str, tuple[str, ...]] = {"Serial": _GENERATIONS, "Parallel": _GENERATIONS, "G1": _GENERATIONS}


@dataclass(frozen=True)
class Setting:
    """How a program is run and recorded."""

    jdk: int
    collector: str
    way: Literal["run", "attach"]

    def __str__(self) -> str:
        return f"{self.jdk}-{self.collector}-{self.way}"

    @property
    def heap(self) -> tuple[str, ...]:
        """Options of the JVM."""
        return ("-Xmx256m", *collectors.COLLECTORS[self.collector], *_HEAPS.get(self.collector, ()))

    def present(self) -> bool:
        java = java_homes.java(self.jdk)
        return java.exists() and collectors.present(java, collectors.COLLECTORS[self.collector])


def settings() -> list[Setting]:
    """All of them; neighbours differ in the JDK, the collector and the way."""
    jdks, names = len(JDKS), list(collectors.COLLECTORS)
    half = jdks * len(names)
    return [
        # 4 JDKs and 5 collectors have no common factor, so half of the list has every pair.
        Setting(JDKS[i % jdks], names[i % len(names)], "run" if (i + i // half) % 2 == 0 else "attach")
        for i in range(2 * half)
    ]


@dataclass(frozen=True)
class Recorded:
    """leaks  the output of `offheap leaks --all --json`
    held   what the program holds by its own count, all of it older than the last collection
    used   bytes of the heap in use after that collection, as the program reads them
    """

    path: Path
    leaks: dict[str, Any]
    held: list[Held]
    used: int

    @property
    def java_heap(self) -> dict[str, Any]:
        found: dict[str, Any] = self.leaks["java_heap"]
        return found

    def suspects(self, verdict: str) -> list[dict[str, Any]]:
        return [one for one in self.java_heap["suspects"] if one["verdict"] == verdict]


def record(
    program: Program,
    setting: Setting,
    zoo: Zoo,
    folder: Path,
    *,
    seconds: float = SECONDS,
    heap: Sequence[str] = (),
    options: Sequence[str] = OPTIONS,
    collect: bool = True,
) -> Recorded:
    """Starts the program, records it, and asks `offheap leaks`.

    heap     more options of the JVM
    options  of the recording
    collect  the program collects its whole heap before the end
    """
    output = folder / f"{program.name}-{setting}.offheap"
    command = zoo.command(program, java_homes.java(setting.jdk), heap=(*setting.heap, *heap))
    if setting.way == "run":
        with Running(offheap("run", *options, "-o", output, "--", *command)) as running:
            time.sleep(seconds)
            held, used = _settle(running, collect)
            status = running.exit()
            assert status == 0, running.errors
    else:
        with Running(command) as running:
            running.truths(1)
            with attached(running.pid, output, options):
                time.sleep(seconds)
                held, used = _settle(running, collect)
            assert running.exit() == 0, running.errors
    return Recorded(output, ask("leaks", output, "--all", "--json"), held, used)


def _settle(running: Running, collect: bool) -> tuple[list[Held], int]:
    running.stop_leaking()
    used = running.collect() if collect else 0
    time.sleep(SWEPT_SECONDS)
    return running.held(), used


@contextlib.contextmanager
def attached(pid: int, output: Path, options: Sequence[str] = OPTIONS) -> Iterator[None]:
    """`offheap attach` for the time of the context, ended by Ctrl-C."""
    recorder = subprocess.Popen(
        offheap("attach", str(pid), *options, "-o", output),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        limit = time.monotonic() + START_SECONDS
        while not output.exists():
            assert recorder.poll() is None, recorder.communicate()[1]
            assert time.monotonic() < limit, "offheap attach does not begin"
            time.sleep(0.05)
        yield
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=START_SECONDS)
        assert recorder.returncode == 0, errors
    finally:
        recorder.kill()
        recorder.communicate()


def ask(*arguments: str | Path) -> dict[str, Any]:
    """The JSON that a command prints."""
    done = warm(*arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of_place(recorded: Recorded, held: Held) -> dict[str, Any] | None:
    """The site of these objects with the most bytes."""
    found = [
        one
        for one in recorded.java_heap["suspects"]
        if one["stack"]
        and one["stack"][0]["name"] == held.class_name
        and held.method in [frame["name"] for frame in one["stack"]]
    ]
    return max(found, key=lambda one: one["live_bytes"]["estimate"], default=None)
