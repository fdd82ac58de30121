"""JVMs that lack resources the probe wants: they run as without the probe, and losses are stated."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from harness import needs
from harness.hostile.seccomp import WISHES, forbid
from harness.hostile.small_places import FileSystem, memory_cgroup, small_file_system
from harness.paths import JAVA
from harness.plugins.rotation import with_slow
from harness.survival import survival_matrix
from offheap import recording
from offheap.errors import UserError
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe import control, library

pytestmark = pytest.mark.usefixtures("probe_library")

MIB = 1 << 20
# These options make the memory use of two JVMs of one kind equal.
STEADY = ("-Xms32m", "-Xmx32m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-XX:ActiveProcessorCount=2")


def nothing() -> None:
    pass


@pytest.fixture(scope="module")
def jar(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return survival_matrix.compile_stress(jdk, tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def scarce(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = JAVA / "Scarce.java"
    return survival_matrix.compile_agent(jdk, source, tmp_path_factory.mktemp("scarce"))


@contextmanager
def started(
    command: Sequence[str | Path], folder: Path, variables: Mapping[str, str], confine: Callable[[], None]
) -> Iterator[subprocess.Popen[str]]:
    """A JVM that has printed "ready"; `confine` runs in its process before exec."""
    with open(folder / "stderr", "w") as complaints:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **variables},
            preexec_fn=confine,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
    try:
        assert process.stdout
        said = process.stdout.readline()
        assert said == "ready\n", said + (folder / "stderr").read_text()
        yield process
        assert process.wait(120) == 0, (folder / "stderr").read_text()
        assert not list(folder.glob("hs_err*"))
    finally:
        process.kill()
        process.communicate()
        Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def stress(
    java: Path,
    jar: Path,
    folder: Path,
    variables: Mapping[str, str],
    *,
    confine: Callable[[], None] = nothing,
    before: Callable[[], object] = nothing,
    meanwhile: Callable[[subprocess.Popen[str]], object] = lambda process: None,
) -> str:
    """Runs the stress program and returns its stderr.

    `before` runs while the JVM waits for the stress, `meanwhile` during the stress; the stress lasts until
    `meanwhile` has returned.
    """
    command: list[str | Path] = [java, "-Xmx192m", "-XX:+UseSerialGC", f"-javaagent:{jar}"]
    command += ["-cp", jar, "Stress", "50", "told"]
    with started(command, folder, variables, confine) as process:
        before()
        go(process)
        meanwhile(process)
        go(process)
        assert process.stdout
        printed = process.stdout.read()
    assert printed == survival_matrix.printed(50)
    return (folder / "stderr").read_text()


def under(library: Path, options: str) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "OFFHEAP": options}


@pytest.mark.parametrize("version", with_slow([21], [11, 17, 25]))
def test_full_tables(
    version: int, jre: Callable[[int], Path], jar: Path, probe_library: Path, tmp_path: Path
) -> None:
    stress(jre(version), jar, tmp_path, under(probe_library, f"exact,blocks=1024,stacks=256,dir={tmp_path}"))
    (file,) = tmp_path.glob("*.live")
    lost = recording.load(file).info.lost
    assert lost["lost_blocks"] > 1000
    assert lost["lost_stacks"] > 100


@pytest.mark.parametrize("version", with_slow([17], [11, 21, 25]))
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_file_system_that_fills_up(
    kind: FileSystem, version: int, jre: Callable[[int], Path], jar: Path, probe_library: Path, tmp_path: Path
) -> None:
    """The live file gets its pages on demand: with no space left, a write would be SIGBUS."""
    with small_file_system(kind, tmp_path, 24) as place:

        def fill() -> None:
            with open(place / "filler", "wb", buffering=0) as filler:
                try:
                    while True:
                        filler.write(bytes(4096))
                except OSError:
                    pass

        options = f"interval=64,stacks=16384,dir={place}"
        stress(jre(version), jar, tmp_path, under(probe_library, options), before=fill)
        (file,) = place.glob("*.live")
        lost = recording.load(file).info.lost
        assert lost.get("lost_stacks", 0) > 0, lost


def refusal(pid: int, options: str = "interval=16384") -> str:
    """The reason why the probe refuses to start; "" if it has started, recorded and stopped."""
    try:
        live_file = control.start(pid, options).live_file
    except UserError as error:
        return str(error)
    try:
        control.detach(pid)
        recording.load(live_file)
    finally:
        live_file.unlink(missing_ok=True)
    return ""


# Calls that the probe does not need; without madvise and fstatfs it does not record (test_hostile_places.py).
DISPENSABLE = [number for wish, number in WISHES.items() if wish not in ("madvise", "fstatfs")]


@needs.on_x86_64  # system call numbers
@pytest.mark.parametrize("version", with_slow([17, 25], [11, 21]))
def test_seccomp(
    version: int, jre: Callable[[int], Path], jar: Path, probe_library: Path, tmp_path: Path
) -> None:
    variables = under(probe_library, f"exact,dir={tmp_path}")
    said = stress(jre(version), jar, tmp_path, variables, confine=lambda: forbid([*WISHES.values()]))
    refused = r"offheap: cannot create /\S+\.live: operation not permitted; nothing is recorded\n"
    assert re.fullmatch(refused, said)
    assert not list(tmp_path.glob("*.live"))

    assert not stress(jre(version), jar, tmp_path, variables, confine=lambda: forbid(DISPENSABLE))
    (file,) = tmp_path.glob("*.live")
    found = recording.load(file)
    assert found.info.ended == "exited"
    assert found.info.joined > 1000


@needs.on_x86_64  # system call numbers
@pytest.mark.parametrize("version", with_slow([17, 25], [11, 21]))
def test_attach_under_seccomp(version: int, jre: Callable[[int], Path], jar: Path, tmp_path: Path) -> None:
    said: list[str] = []

    def ask(process: subprocess.Popen[str]) -> None:
        said.extend(refusal(process.pid) for _ in range(3))

    confine = lambda: forbid(DISPENSABLE)  # noqa: E731
    stress(jre(version), jar, tmp_path, {}, confine=confine, meanwhile=ask)
    assert said == [""] * 3
    said.clear()
    confine = lambda: forbid([*WISHES.values()])  # noqa: E731
    stress(jre(version), jar, tmp_path, {}, confine=confine, meanwhile=ask)
    for one in said:
        assert "could not make its live file in " in one


@pytest.mark.parametrize("version", with_slow([11, 17, 25], [21]))
def test_attaches_that_are_refused(
    version: int, jre: Callable[[int], Path], jar: Path, tmp_path: Path
) -> None:
    """Many refusals during JVM events: a refusal unloads no code that a thread runs."""
    codes: list[int] = []

    def attach(process: subprocess.Popen[str]) -> None:
        path, request = str(library.probe_library()), f"start,file={tmp_path}/none/a.live"
        codes.extend(control.ask(AttachedVM(process.pid), path, request) for _ in range(20))

    stress(jre(version), jar, tmp_path, {}, meanwhile=attach)
    assert codes == [control.CANNOT_CREATE] * 20


def hold(
    java: Path,
    scarce: Path,
    folder: Path,
    variables: Mapping[str, str],
    *,
    what: str,
    options: Sequence[str] = STEADY,
    confine: Callable[[], None] = nothing,
    ready: Callable[[int], object] = lambda pid: None,
    full: Callable[[int], object] = lambda pid: None,
) -> int:
    """Runs the program that exhausts a resource, and returns the number of blocks that it held.

    `ready` gets its pid before the program begins, `full` while it holds the blocks.
    """
    command: list[str | Path] = [java, *options, "-XX:MaxDirectMemorySize=4g", "-cp", scarce, "Scarce", what]
    with started(command, folder, variables, confine) as process:
        assert process.stdout
        ready(process.pid)
        go(process)
        word, count = process.stdout.readline().split()
        assert word == "held"
        full(process.pid)
        go(process)
        assert process.stdout.read() == "worked 40 40\n"
    return int(count)


def recorded(folder: Path, size: int) -> int:
    (file,) = folder.glob("*.live")
    return int((recording.load(file).live["size"] == size).sum())


def leave_address_space(pid: int) -> None:
    """Limits the address space to 64 MiB more, all that malloc has left."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 64 * MIB
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def give_address_space(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.parametrize("version", with_slow([17, 25], [11, 21]))
def test_address_space_that_runs_out(
    version: int, jre: Callable[[int], Path], scarce: Path, probe_library: Path, tmp_path: Path
) -> None:
    """It runs out during the recording; an attach is refused then, and succeeds when there is room again."""
    java, alone, preloaded, attached = jre(version), tmp_path / "a", tmp_path / "p", tmp_path / "t"
    for folder in (alone, preloaded, attached):
        folder.mkdir()
    run = partial(hold, java, scarce, what="addresses")
    without = run(alone, {}, ready=leave_address_space, full=give_address_space)
    seen: list[int] = []

    def count(pid: int) -> None:
        seen.append(recorded(preloaded, MIB))
        give_address_space(pid)

    variables = under(probe_library, f"exact,dir={preloaded}")
    held = run(preloaded, variables, ready=leave_address_space, full=count)
    assert seen == [held]
    assert abs(held - without) < 10
    assert not (preloaded / "stderr").read_text()
    said: list[str] = []

    def come_and_go(pid: int) -> None:
        said.append(refusal(pid))
        leave_address_space(pid)

    def come_again(pid: int) -> None:
        said.append(refusal(pid))
        give_address_space(pid)
        said.append(refusal(pid))

    run(attached, {}, ready=come_and_go, full=come_again)
    before, refused, after = said
    assert not before
    assert "could not map its live file in " in refused
    assert "check the JVM's limit of address space (ulimit -v)" in refused
    assert not after


def leave_one_descriptor(pid: int) -> None:
    """For the connection of a request; the connection of the request before may be closed late."""
    folder, deadline = Path(f"/proc/{pid}/fd"), time.monotonic() + 60
    used: dict[int, str] = {}
    while True:
        with suppress(FileNotFoundError):
            used = {int(file.name): os.readlink(file) for file in folder.iterdir()}
            if sum(target.startswith("socket:") for target in used.values()) <= 1:
                break
        assert time.monotonic() < deadline, used
        time.sleep(0.01)
    free = next(number for number in range(len(used) + 1) if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + 1, 64))


@pytest.mark.parametrize("version", with_slow([17, 25], [11, 21]))
def test_file_descriptors_that_run_out(
    version: int, jre: Callable[[int], Path], scarce: Path, probe_library: Path, tmp_path: Path
) -> None:
    java, preloaded, attached = jre(version), tmp_path / "p", tmp_path / "t"
    for folder in (preloaded, attached):
        folder.mkdir()
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # noqa: E731
    run = partial(hold, java, scarce, what="descriptors", confine=few)
    seen: list[int] = []
    count = lambda pid: seen.append(recorded(preloaded, 5000))  # noqa: E731
    run(preloaded, under(probe_library, f"exact,dir={preloaded}"), full=count)
    assert seen == [6000]
    assert not (preloaded / "stderr").read_text()
    said: list[str] = []
    ask = lambda pid: said.append(refusal(pid))  # noqa: E731

    def ask_again(pid: int) -> None:
        leave_one_descriptor(pid)
        said.append(refusal(pid))

    run(attached, {}, ready=ask, full=ask_again)
    assert not said[0]
    assert "found no file descriptor for its live file" in said[1]


@pytest.mark.parametrize("version", with_slow([17], [11, 21, 25]))
def test_near_the_memory_limit_of_its_cgroup(
    version: int, jre: Callable[[int], Path], scarce: Path, probe_library: Path, tmp_path: Path
) -> None:
    """16 MiB are enough for the probe: its tables are smaller than the 4.7 MiB of an unlimited process."""
    options = (*STEADY, "-XX:ReservedCodeCacheSize=16m")
    run = partial(hold, jre(version), scarce, what="32", options=options)

    def used(limit: int, variables: Mapping[str, str]) -> int:
        found: list[int] = []
        with memory_cgroup() as group, tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            if limit:
                group.limit(limit)
            full = lambda pid: found.append(group.used())  # noqa: E731
            run(Path(folder), variables, confine=group.enter, full=full)
        return found[0]

    alone = used(0, {})
    limit = alone + 16 * MIB
    assert used(limit, {}) < limit
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-test-") as name:
        cost = used(limit, under(probe_library, f"dir={name}")) - alone
        (file,) = Path(name).iterdir()
        assert recording.load(file).info.ended == "exited"
        in_memory = file.stat().st_blocks * 512
    assert 2 * MIB < in_memory < 4.7 * MIB
    assert in_memory < cost < 12 * MIB
