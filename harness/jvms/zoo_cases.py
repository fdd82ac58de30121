"""Programs of the zoo with the JDK and the way to record them; what `offheap leaks` says of them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.command_line import offheap
from harness.jvms import java_homes
from harness.jvms import zoo as zoo_programs
from harness.jvms.zoo import Program, Running, Truth, Zoo
from harness.warm_command import warm

PROGRAMS = zoo_programs.programs()
# A verdict on the first half minute of a process needs more evidence.
SECONDS = 18.0


@dataclass(frozen=True)
class Case:
    program: str
    jre: int
    way: Literal["run", "attach"]
    # The births of a young process must be even: 100 samples cluster early in one of 100 runs, 400 samples
    # do not.
    options: tuple[str, ...] = ("--interval", "32KiB")

    def __str__(self) -> str:
        return f"{self.program}-{self.jre}-{self.way}"


@dataclass(frozen=True)
class Recorded:
    """`leaks` is the output of `offheap leaks --json`; `truth` what the program said at the end."""

    path: Path
    leaks: dict[str, Any]
    truth: Truth


# The main promise on every JDK, both ways. At the default interval a leak of 1.4 MiB/s is beyond doubt after
# 15 seconds: `make test-slow` waits for that; a smaller interval makes up for the time here.
INFLATERS = [
    Case("inflaters", version, way) for version in java_homes.JRE_VERSIONS for way in ("run", "attach")
]
LEAKING = [
    Case("direct-buffers", 17, "attach"),
    Case("unsafe", 21, "run"),
    Case("mapped-buffers", 11, "attach"),
    Case("jni-malloc", 25, "attach"),
    Case("jni-dlsym", 17, "run"),
    Case("jni-mmap", 21, "attach"),
    Case("ffm", 25, "run"),
    # The program with the smallest leak a second.
    Case("thread-map", 17, "run", ("--interval", "16KiB")),
]
HEALTHY = [
    Case("churn", 25, "run"),
    Case("cache", 17, "run"),
    Case("thread-pools", 21, "attach"),
]
EXACT = [
    Case("jni-malloc", 17, "run", ("--exact",)),
    Case("unsafe", 25, "run", ("--exact",)),
    Case("inflaters", 21, "run", ("--exact",)),
]


def record(case: Case, java: Path, zoo: Zoo, folder: Path, seconds: float = SECONDS) -> Recorded:
    """Starts the program, records it the given way, and asks `offheap leaks` about it."""
    output = folder / f"{case}{''.join(case.options)}.offheap"
    command = zoo.command(PROGRAMS[case.program], java)
    if case.way == "run":
        with Running(offheap("run", *case.options, "-o", output, "--", *command)) as running:
            time.sleep(seconds)
            truth = running.stop_leaking()
            status = running.exit()
            assert status == 0, running.errors
    else:
        with Running(command) as running:
            running.truths(1)
            attach = offheap("attach", str(running.pid), *case.options, "-o", output)
            done = subprocess.run(
                [*attach, "--duration", f"{seconds}s"], capture_output=True, text=True, timeout=seconds + 60
            )
            assert done.returncode == 0, done.stderr
            truth = running.stop_leaking()
            assert running.exit() == 0, running.errors
    asked = warm("leaks", output, "--json")
    assert asked.returncode == 0, asked.stderr
    return Recorded(output, json.loads(asked.stdout), truth)


def assert_stack(program: Program, stack: list[dict[str, Any]]) -> None:
    """The program's names are in the stack in order, and no frame from the first to the last is a gap."""
    assert_names(program.stack, stack)


def assert_names(expected: Sequence[str], stack: list[dict[str, Any]]) -> None:
    """These are in the stack in order, and no frame from the first to the last is a gap."""
    names = [frame["name"] for frame in stack]
    listing = "\n".join(f"  {frame['kind']:8}{frame['name']}" for frame in stack)
    positions: list[int] = []
    for name in expected:
        start = positions[-1] + 1 if positions else 0
        found = [i for i in range(start, len(names)) if names[i] == name or names[i].startswith(f"{name}(")]
        assert found, f"{name} is not in the stack after {expected[: len(positions)]}:\n{listing}"
        positions.append(found[0])
    between = stack[positions[0] : positions[-1] + 1]
    assert not [frame for frame in between if frame["kind"] == "unknown"], f"a gap in the stack:\n{listing}"
