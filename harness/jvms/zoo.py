"""The programs of examples/leaks: what each is expected to show, how to compile and how to run them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.jvms.java_homes import jdk_homes
from harness.paths import ROOT
from offheap.probe import checkout

LEAKS = ROOT / "examples" / "leaks"
READY_SECONDS = 60.0
# A young collection every few seconds, as in any busy program.
SMALL_HEAP = ("-Xmx128m", "-Xmn4m", "-XX:+UseSerialGC")


@dataclass(frozen=True)
class Program:
    """One program and its truth.

    stack            names that the leak's stack must contain, in this order, innermost first
    leaks            False: no suspect may have the verdict "leak"
    attach           False: only a probe there from the start can see the leak, because the program got its
                     allocator by dlsym before an attach
    where            verdicts of `offheap where --watch` that are right, with Native Memory Tracking on
    probe            False: no native allocation site is at fault, `offheap leaks` is not asked
    java_heap        `offheap leaks` is asked about the Java heap
    java_stack       names that the stack of the leaking Java objects must contain, their class first
    blocks_per_step  native blocks for each block (or object) that the program counts
    """

    name: str
    main: str
    kind: str = ""
    jdk: int = 11
    jvm: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    attach: bool = True
    blocks_per_step: int = 1
    where: tuple[str, ...] = ()
    probe: bool = True
    java_heap: bool = False
    java_stack: tuple[str, ...] = ()

    @property
    def leaks(self) -> bool:
        return bool(self.stack or self.java_stack)


def programs() -> dict[str, Program]:
    """What examples/leaks/zoo.json lists, by name."""
    rows: list[dict[str, Any]] = json.loads((LEAKS / "zoo.json").read_text())["programs"]
    for row in rows:
        row.update({key: tuple(row.get(key, ())) for key in ("jvm", "stack", "where", "java_stack")})
    return {row["name"]: Program(**row) for row in rows}


@dataclass(frozen=True)
class Zoo:
    """The compiled zoo: `classes` for JDK 11, `modern` for JDK 22 or None, `native` libraries."""

    classes: Path
    modern: Path | None
    native: Path

    def command(
        self,
        program: Program,
        java: Path,
        rate: float | None = None,
        seconds: float = 0,
        heap: Sequence[str] = SMALL_HEAP,
    ) -> list[str]:
        """The command line of a program; seconds 0: it runs until it is told to exit."""
        folders = [self.classes] + ([self.modern] if self.modern and program.jdk > 11 else [])
        options = [option.format(native=self.native) for option in program.jvm]
        arguments = [str(rate), str(seconds)] if rate is not None else []
        path = os.pathsep.join(map(str, folders))
        return [str(java), *heap, *options, "-cp", path, program.main, *arguments]


def compile_zoo(folder: Path) -> Zoo:
    """Compiles into `folder` what is not there yet; needs a JDK >= 11, and for ffm a second one >= 22."""
    homes = jdk_homes()
    home = next(homes[version] for version in sorted(homes) if version >= 11)
    modern_home = next((homes[version] for version in sorted(homes) if version >= 22), None)
    sources = sorted(path for path in LEAKS.rglob("*") if path.suffix in (".java", ".c", ".cpp"))
    digest = hashlib.sha256(f"{home} {modern_home}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    place = folder / digest.hexdigest()[:16]
    zoo = Zoo(place / "classes", place / "modern" if modern_home else None, place / "native")
    folder.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes: one compiles, the others wait.
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _compile_into(place, sources, home, modern_home)
    return zoo


def _compile_into(place: Path, sources: Sequence[Path], home: Path, modern_home: Path | None) -> None:
    draft = place.parent / ".draft"
    shutil.rmtree(draft, ignore_errors=True)
    java_sources = [source for source in sources if source.suffix == ".java"]
    ffm = [source for source in java_sources if source.parent.name == "ffm"]
    _javac(home, draft / "classes", [s for s in java_sources if s not in ffm], ("--release", "11"))
    if modern_home:
        _javac(modern_home, draft / "modern", ffm, ("-cp", str(draft / "classes")))
    (draft / "native").mkdir()
    headers = [f"-I{home / 'include'}", f"-I{home / 'include' / 'linux'}"]
    script = checkout.build_script()
    for source, library, language in (
        (LEAKS / "jni" / "codec.c", "libcodec.so", "c"),
        (LEAKS / "thread-map" / "observer.cpp", "libobserver.so", "c++"),
    ):
        flags = ["-O1", "-g", "-shared", "-fPIC", "-fno-sanitize=undefined", "-Wall", "-Wextra"]
        output = ["-o", str(draft / "native" / library)]
        script.compile_native([str(source), *flags, *headers, *output], language=language)
    draft.rename(place)


def _javac(home: Path, classes: Path, sources: Sequence[Path], options: Sequence[str]) -> None:
    command = [str(home / "bin" / "javac"), "-nowarn", "-d", str(classes), *options, *map(str, sources)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, f"javac failed:\n{outcome.stderr}"


@dataclass(frozen=True)
class Truth:
    """What the program itself counted: leaked blocks (or objects) and their bytes."""

    blocks: int
    bytes: int


@dataclass(frozen=True)
class Held:
    """The objects of one class, allocated by one method, that the program holds by its own count."""

    method: str
    class_name: str
    objects: int
    bytes: int


class Running:
    """A started program of the zoo, alone or under a command such as `offheap run`.

    A context manager: it enters when the program is ready, and ends the program with the block.
    `pid` is the JVM's, as the program states it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._errors: list[str] = []
        self._ended = False
        self._readers = [
            threading.Thread(target=self._read_output, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Running:
        self._await("ready", 1)
        self.pid = int(self._matching("pid ")[0].split()[1])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        for reader in self._readers:
            reader.join(30)
        with contextlib.suppress(BrokenPipeError):  # the program may have ended before it read
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                if pipe and not any(reader.is_alive() for reader in self._readers):
                    pipe.close()

    @property
    def errors(self) -> str:
        """What came on standard error so far."""
        return "".join(self._errors)

    def truths(self, count: int, timeout: float = READY_SECONDS) -> list[Truth]:
        """Waits until the program has stated its truth `count` times (once a second)."""
        self._await("truth ", count, timeout)
        return [self._truth(line) for line in self._matching("truth ")]

    def stop_leaking(self) -> Truth:
        """Ends the steps; the process stays.  The truth is final when this returns."""
        self._tell("stop")
        self._await("stopped ", 1)
        return self._truth(self._matching("stopped ")[0])

    def collect(self) -> int:
        """Collects the whole Java heap; the bytes in use after that."""
        before = len(self.collected())
        self._tell("collect")
        self._await("collected ", before + 1)
        return self.collected()[-1]

    def collected(self) -> list[int]:
        """The bytes in use after each collection that the program stated."""
        return [int(line.split()[1]) for line in self._matching("collected ")]

    def held(self) -> list[Held]:
        """What the program stated last of the Java heap."""
        rows = [json.loads(line) for line in self._matching('{"method"')]
        last = {(row["method"], row["class"]): row for row in rows}
        return [Held(*place, row["objects"], row["bytes"]) for place, row in last.items()]

    def exit(self, timeout: float = 60) -> int:
        """Tells the program to end and waits; returns the exit status of the started command."""
        self._tell("exit")
        status = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(30)
        return status

    @staticmethod
    def _truth(line: str) -> Truth:
        blocks, size = map(int, line.split()[1:])
        return Truth(blocks, size)

    def _tell(self, word: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def _matching(self, prefix: str) -> list[str]:
        return [line for line in self._lines if line.startswith(prefix)]

    def _await(self, prefix: str, count: int, timeout: float = READY_SECONDS) -> None:
        with self._changed:
            enough = self._changed.wait_for(
                lambda: len(self._matching(prefix)) >= count or self._ended, timeout
            )
        if not enough or len(self._matching(prefix)) < count:
            self.process.poll()
            raise AssertionError(
                f"no {count} lines {prefix!r} (status {self.process.returncode}):\n"
                + "".join(self._lines[-20:])
                + self.errors
            )

    def _read_output(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._errors.append(line)
