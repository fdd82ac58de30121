"""The programs of examples/published: fetched, compiled, ready to start.

Their artifacts come from Maven by the machine's `mvn`, each with the SHA-256 that manifest.json states.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from harness.jvms import java_homes
from harness.paths import ROOT
from harness.peers import maven
from offheap.probe import checkout

PUBLISHED = ROOT / "examples" / "published"
MANIFEST = PUBLISHED / "manifest.json"
BUILD = ROOT / "build" / "published"
JDKS = (11, 17, 21, 25)
AGENTS = PUBLISHED / "agents"
LOAD = PUBLISHED / "load"

Twin = Literal["leak", "healthy"]
TWINS: tuple[Twin, ...] = get_args(Twin)


@dataclass(frozen=True)
class Program:
    """One program and its truth.

    does               what it does, in one sentence
    classes            the kinds of program that it stands for, see README.md
    artifacts          its class path, each `group:artifact:version[:classifier]`
    frame              the application's method at fault, `package.Class.method`; of an agent, its function
    library            the library whose memory leaks
    kind               malloc or mmap
    rate               requests per second
    bytes_per_object   of one that leaks, where the program does not say; 0: nobody knows
    jdks               the JDKs that it runs on
    release            of the Java language
    jvm                options; {scratch} is an empty folder of its own, {native} that of the agents
    jvm_from           options from that JDK on
    attach             False: only a probe there from the start can see the leak, because the library got its
                       allocator by dlsym before an attach
    agent              an agent of agents/, started with the twin's name as its option
    where              for each twin the verdicts of `offheap where` that are right
    """

    name: str
    does: str
    classes: tuple[str, ...]
    main: str
    artifacts: tuple[str, ...]
    frame: str
    library: str
    where: Mapping[Twin, tuple[str, ...]]
    kind: str = "malloc"
    rate: float = 0.0
    bytes_per_object: float = 0.0
    jdks: tuple[int, ...] = JDKS
    release: int = 11
    jvm: tuple[str, ...] = ()
    jvm_from: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    attach: bool = True
    agent: str = ""

    @property
    def sources(self) -> list[Path]:
        return sorted([*LOAD.glob("*.java"), *(PUBLISHED / self.name).glob("*.java")])


@dataclass(frozen=True)
class Ready:
    """A program that is compiled."""

    program: Program
    class_path: tuple[Path, ...]
    native: Path

    def command(self, java: Path, twin: Twin, scratch: Path, options: Iterable[str] = ()) -> list[str]:
        """The command line; it runs until it is told to exit, and puts its files into `scratch`."""
        program = self.program
        version = next(
            (version for version in java_homes.JRE_VERSIONS if java_homes.java(version) == java), 0
        )
        words = ["-Xmx256m", f"-Djava.io.tmpdir={scratch}", *program.jvm, *options]
        for least, more in program.jvm_from.items():
            words += more if version >= least else ()
        if program.agent:
            words.append(f"-agentpath:{{native}}/lib{program.agent}.so={twin}")
        words = [word.format(scratch=scratch, native=self.native) for word in words]
        path = os.pathsep.join(map(str, self.class_path))
        arguments = [twin, str(program.rate)] if program.rate else [twin]
        return [str(java), *words, "-cp", path, program.main, *arguments]


def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(MANIFEST.read_text())
    return loaded


def programs() -> dict[str, Program]:
    """What the manifest lists, by name."""
    found = {}
    for row in manifest()["programs"]:
        for key in ("classes", "artifacts", "jdks", "jvm"):
            if key in row:
                row[key] = tuple(row[key])
        row["where"] = {twin: tuple(kinds) for twin, kinds in row["where"].items()}
        row["jvm_from"] = {int(version): tuple(words) for version, words in row.get("jvm_from", {}).items()}
        found[row["name"]] = Program(**row)
    return found


def compiler(release: int) -> Path | None:
    """The home of a JDK that compiles for this release of Java, the oldest one."""
    homes = java_homes.jdk_homes()
    return next((homes[version] for version in sorted(homes) if version >= release), None)


def prepare(program: Program, build: Path = BUILD) -> Ready:
    """Fetches the program's artifacts and compiles it, each once; maven.Unavailable if one cannot be had."""
    pins: dict[str, str] = manifest()["artifacts"]
    home = compiler(program.release)
    if home is None:
        raise FileNotFoundError(f"no JDK {program.release} or newer to compile {program.name} with")
    with _alone(build):
        jars = maven.fetch_pinned(
            {artifact: pins[artifact] for artifact in program.artifacts}, build / "jars"
        )
        class_path = [jars[artifact] for artifact in program.artifacts]
        native = _compile_agents(build, home) if program.agent else build
        classes = _place(build / "classes", program.name, program.sources, f"{home} {class_path}")
        if not classes.exists():
            release = ["--release", str(program.release)]
            words = [*release, "-cp", os.pathsep.join(map(str, class_path)), "-nowarn", "-proc:none"]
            draft = classes.with_suffix(".draft")
            command = [str(home / "bin" / "javac"), *words, "-d", str(draft), *map(str, program.sources)]
            outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if outcome.returncode != 0:
                raise RuntimeError(f"{program.name} does not compile:\n{outcome.stderr}")
            draft.rename(classes)
    return Ready(program, (classes, *class_path), native)


def _compile_agents(build: Path, home: Path) -> Path:
    sources = sorted(AGENTS.glob("*.cpp"))
    place = _place(build, "agents", sources, str(home))
    if not place.exists():
        draft = place.with_suffix(".draft")
        draft.mkdir(parents=True, exist_ok=True)
        script = checkout.build_script()
        flags = ["-O1", "-g", "-shared", "-fPIC", "-fno-sanitize=undefined", "-Wall", "-Wextra"]
        headers = [f"-I{home / 'include'}", f"-I{home / 'include' / 'linux'}"]
        for source in sources:
            output = ["-o", str(draft / f"lib{source.stem}.so")]
            script.compile_native([str(source), *flags, *headers, *output], language="c++")
        draft.rename(place)
    return place


def _place(folder: Path, name: str, sources: Iterable[Path], more: str) -> Path:
    """A folder named after a digest of its sources."""
    digest = hashlib.sha256(more.encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}-{digest.hexdigest()[:16]}"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Several tests may want the same program at once: one prepares it, the others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
