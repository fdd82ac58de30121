"""Starts a program under the probe and records the JVM that it is, or that it starts.

Every process between offheap and the JVM may make its own live file in the folder of
this run: the shell of a start script, then the JVM.  offheap records the JVM, or the
program itself if it starts no JVM.  A start script may run `java -version` first and
a launcher may start several JVMs: each gets a recording, and the JVM after a very
short-lived one takes over the name of its recording.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offheap.errors import UserError
from offheap.launch.child import Child
from offheap.probe.live_files import run_folder, search, stale_files
from offheap.probe.live_files.search import FoundFile
from offheap.probe.sole_recorder import sole_recorder
from offheap.recording.capture.companion import Companions
from offheap.recording.capture.recorder import CollectionLog, Outcome, OwnersReading, Progress, record
from offheap.recording.storage.output import check_output, try_output

_POLL_SECONDS = 0.03
# After this time without a JVM offheap records the program itself, until a JVM appears.
_PATIENCE_SECONDS = 2.0
_READING_SECONDS = 0.5
# A JVM with a shorter life gives its recording's name to the next one.
_SHORT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Launched:
    """`status`: the program's exit status as in a shell.  `outcomes`: one per recording, main one first."""

    status: int
    outcomes: tuple[Outcome, ...]
    problems: tuple[UserError, ...] = ()


@dataclass
class Settings:
    """output      None: named after the program, in the current folder
    variables   environment that starts the probe and makes it write into the given folder
    follow      children of the JVM are also recorded
    say         takes one line for the user
    beside      runs beside the recording of each JVM
    keep_arguments  values that look like secrets stay in the recording
    """

    variables: Callable[[Path], Mapping[str, str]]
    output: Path | None = None
    exact: bool = False
    follow: bool = False
    duration: float | None = None
    every: float | None = None
    on_progress: Callable[[Progress], None] | None = None
    owners: OwnersReading | None = None
    collections: Callable[[int], CollectionLog] | None = None
    beside: Companions | None = None
    say: Callable[[str], None] = lambda line: None
    keep_arguments: bool = False


def launch(command: Sequence[str], settings: Settings) -> Launched:
    """Runs the command to its end.  UserError when it cannot be started or the output cannot be written."""
    if settings.output is not None:
        check_output(settings.output)
    else:
        try_output(_named_after(command, os.getpid()))
    stale_files.sweep()
    folder = run_folder.make(settings.exact, settings.say, stale_files.mend)
    try:
        with Child(command, settings.variables(folder)) as child:
            run = _Run(child, _named_after(command, child.pid), folder, settings)
            run.follow_program()
            status = child.wait()
            run.record_rest()
    finally:
        run_folder.remove(folder)
    return Launched(status, tuple(run.outcomes), tuple(run.problems))


@dataclass
class _Run:
    child: Child
    default_output: Path
    folder: Path
    settings: Settings
    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[UserError] = field(default_factory=list)
    _done: set[Path] = field(default_factory=set)  # live files that have their recording
    _announced: set[tuple[int, Path]] = field(default_factory=set)

    def follow_program(self) -> None:
        """Records until the program and the JVM have ended, the time is up, or a signal asks to stop."""
        while True:
            file = self._await_file()
            if file is None:
                return
            outcome = self._record(file, self._next_output(), waiting=not file.jvm)
            if outcome is None:
                return
            replaced = not file.jvm and self._new_jvm() is not None
            if replaced:
                shutil.rmtree(outcome.output, ignore_errors=True)
                continue
            self.outcomes.append(outcome)
            if outcome.ended == "recording" and not self._ended_by_exec(file):
                return

    def record_rest(self) -> None:
        """Records one snapshot of each live file that other JVMs of the program left."""
        for file in search.inside(self.folder):
            wanted = file.jvm or self.settings.follow or not self.outcomes
            if wanted and file.path not in self._done and not self.problems:
                outcome = self._record(file, self._other_output(), waiting=False, duration=0.0)
                if outcome is not None:
                    self.outcomes.append(outcome)

    def _await_file(self) -> FoundFile | None:
        began = time.monotonic()
        while True:
            ended = self.child.poll() is not None
            jvm = self._new_jvm()
            if jvm is not None:
                return jvm
            if ended or self.child.asked_to_stop:
                return None  # record_rest finds the live files
            if not self.outcomes and time.monotonic() - began > _PATIENCE_SECONDS:
                its = [file for file in search.inside(self.folder) if file.pid == self.child.pid]
                if its:
                    return max(its, key=lambda file: file.start)
            time.sleep(_POLL_SECONDS)

    def _new_jvm(self) -> FoundFile | None:
        jvms = [f for f in search.inside(self.folder) if f.jvm and f.path not in self._done]
        return min(jvms, key=lambda file: file.start, default=None)

    def _ended_by_exec(self, file: FoundFile) -> bool:
        """Whether the process executed another program, which leaves the live file in its last state."""
        return any(f.pid == file.pid and f.start > file.start for f in search.inside(self.folder))

    def _record(
        self, file: FoundFile, output: Path, *, waiting: bool, duration: float | None = None
    ) -> Outcome | None:
        """`waiting`: record only until a JVM appears."""
        read_at = 0.0

        def stop() -> bool:
            nonlocal read_at
            status = self.child.poll()
            if self.child.asked_to_stop:
                return True
            if status is None and waiting and time.monotonic() - read_at > _READING_SECONDS:
                read_at = time.monotonic()
                return self._new_jvm() is not None
            return False

        if file.jvm:
            self._done.add(file.path)
        if file.pid is not None and duration is None and (file.pid, output) not in self._announced:
            # A process that becomes a JVM late is recorded anew, under the same name.
            self._announced.add((file.pid, output))
            self.settings.say(f"recording PID {file.pid} to {output}")
        try:
            with sole_recorder(file.path, file.pid):
                outcome = record(
                    file.path,
                    output,
                    duration=self.settings.duration if duration is None else duration,
                    keep_arguments=self.settings.keep_arguments,
                    every=self.settings.every,
                    stop=stop,
                    on_progress=self.settings.on_progress,
                    owners=self.settings.owners,
                    collections=self.settings.collections,
                    beside=self.settings.beside if file.jvm and duration is None else None,
                )
        except UserError as error:
            # The program continues: a full disk of the recording must not stop it.
            self.problems.append(error)
            self.settings.say(str(error))
            return None
        if outcome.ended == "detached":
            self.settings.say(
                f"another command stopped the probe in PID {file.pid} (offheap detach): "
                "the recording ends there, the program continues"
            )
        if not waiting or self._new_jvm() is None:
            self._done.add(file.path)
        return outcome

    def _next_output(self) -> Path:
        if self.outcomes and self.outcomes[-1].seconds < _SHORT_SECONDS:
            short = self.outcomes.pop()
            shutil.rmtree(short.output, ignore_errors=True)
            return short.output
        return self._other_output()

    def _other_output(self) -> Path:
        first = self.settings.output or self.default_output
        candidates = [first, *(first.with_name(f"{first.stem}-{n}{first.suffix}") for n in range(2, 1000))]
        return next(path for path in candidates if not os.path.lexists(path))


def _named_after(command: Sequence[str], pid: int) -> Path:
    return Path(f"{Path(command[0]).name}-{pid}.offheap")
