"""One JVM under load, with a library loaded and closed in a loop, that the probe enters and leaves again.

The JVM must live and end as without the probe, every slot by which its libraries call each other must have
its first bytes again, and memory must not grow with the number of cycles.  `make soak` runs 1,000 cycles on
each JDK (benchmarks/survival/reattach.py), test_reattach.py a few on one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from harness.native.compiler import compile_c
from harness.paths import AGENTS, JAVA, PROBE
from offheap import recording
from offheap.errors import UserError
from offheap.inspect.process import inspect_process
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.texts import nmt
from offheap.probe import control, library
from offheap.proc import maps, root, status
from offheap.proc.images.elf import SEGMENT_LOAD, ElfError, ElfImage
from offheap.proc.maps import Mapping
from offheap.proc.pagemap import PAGE

STATUS = 7
# sampled, exact  the probe comes in and goes out
# empty           an agent that does nothing is loaded as often, with a path and options as long: HotSpot
#                 keeps both for good, whatever the agent
# none            the JVM is asked for its version as often
Kind = Literal["sampled", "exact", "empty", "none"]
_OPTIONS = (
    # The Java heap has one size, and one JIT compiler runs: only malloc can grow.
    *("-Xms32m", "-Xmx32m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    # Tells HotSpot's blocks from all others.
    "-XX:NativeMemoryTracking=summary",
    # HotSpot keeps up to a thousand monitors for each thread, so longer runs would have more.
    "-XX:+UnlockDiagnosticVMOptions",
    *("-XX:+IgnoreUnrecognizedVMOptions", "-XX:AvgMonitorsPerThreadEstimate=1"),
)
_SAMPLING = {"sampled": "interval=4096", "exact": "exact"}
_READINGS, _TRIES, _PAUSE_SECONDS = 5, 50, 0.3
# Direct buffers belong to the program until a collection; Memory says more of arenas.
_NOT_HOTSPOTS = ("Other", "Arena Chunk")
_SLOTS = (".got", ".got.plt", ".data.rel.ro", ".data.rel.ro.local")


@dataclass(frozen=True)
class Memory:
    """Bytes, except for `mappings`.

    external  in malloc's blocks that are not HotSpot's
    hotspot   in malloc's blocks that are, without their NMT headers and without arenas
    arenas    of HotSpot's threads, with the chunks that it keeps for them: memory to compute in, which one
              compilation more or less changes by half a megabyte
    free      kept by malloc, in memory
    """

    rss: int
    mappings: int
    external: int
    hotspot: int
    arenas: int
    free: int


@dataclass(frozen=True)
class Outcome:
    """cycles    how often the probe came in and went out again
    reloads     how often the library was loaded and closed
    modules     libraries whose slots were compared
    changed     those whose slots differ at the end, and why
    warm, last  memory a tenth of the way in, and at the end
    """

    cycles: int
    status: int
    reloads: int
    modules: int
    changed: tuple[str, ...]
    warm: Memory
    last: Memory

    @property
    def rss_growth(self) -> float:
        """Bytes for each cycle after the first tenth; so are the next three."""
        return self._growth(self.warm.rss, self.last.rss)

    @property
    def external_growth(self) -> float:
        return self._growth(self.warm.external, self.last.external)

    @property
    def hotspot_growth(self) -> float:
        return self._growth(self.warm.hotspot, self.last.hotspot)

    @property
    def free_growth(self) -> float:
        return self._growth(self.warm.free, self.last.free)

    @property
    def external_limit(self) -> float:
        """The greatest `external_growth` that is no leak.

        Measured without a leak: 832 bytes in all at most, up or down, in 20 cycles as in 1,000.  A block of
        256 bytes that stays in each of 18 cycles is 4,752.  (If it was written to: a block whose first word
        is still glibc's link counts as free.)
        """
        return 2 + self._growth(0, 2048)

    def _growth(self, warm: int, last: int) -> float:
        return (last - warm) / (self.cycles - self.cycles // 10)


@dataclass(frozen=True)
class Programs:
    """What the JVM runs, compiled."""

    classes: Path
    reloader: Path
    plugin: Path
    empty_agent: Path


def build(jdk_home: Path, folder: Path) -> Programs:
    source = JAVA / "Churning.java"
    command: list[str | Path] = [jdk_home / "bin" / "javac", "--release", "11", "-d", folder, source]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    shared = ["-shared", "-fPIC"]
    reloader = compile_c(
        [AGENTS / "reloader.c"], folder / "reloader.so", flags=shared, libraries=["dl", "pthread"]
    )
    plugin = compile_c([PROBE / "tests" / "plugin.c"], folder / "plugin.so", flags=shared)
    # HotSpot keeps the path: one as long as the probe's, unless the folder's alone is longer.
    length = len(str(library.probe_library().with_suffix(""))) - len(f"{folder}/")
    empty_agent = compile_c(
        [AGENTS / "empty_agent.c"],
        folder / ("empty".ljust(length, "_") + ".so"),
        flags=[*shared, "-fvisibility=hidden"],
    )
    return Programs(folder, reloader, plugin, empty_agent)


def run(java: Path, programs: Programs, cycles: int, kind: Kind) -> Outcome:
    """AssertionError when the JVM ends before it is told to, or a recording cannot be read."""
    # All slots are bound from the start: a slot that is bound later changes by right.
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "OFFHEAP")}
    agent = f"-agentpath:{programs.reloader}={programs.plugin}"
    with tempfile.TemporaryDirectory(prefix="offheap-reattach-") as folder:
        process = subprocess.Popen(
            [java, *_OPTIONS, agent, "-cp", programs.classes, "Churning"],
            cwd=folder,
            env={**environment, "LD_BIND_NOW": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            _memory(process.pid)  # starts the JVM's listener, and leaves once what an inspection leaves
            before, changed = _slots(process.pid), []
            for cycle in range(cycles):
                if cycle == cycles // 10:
                    warm = _memory(process.pid)
                _cycle(process.pid, programs, cycle, kind)
            last, after = _memory(process.pid), _slots(process.pid)
            for name, (start, slots) in before.items():
                if name not in after:
                    changed.append(f"{name}: gone")
                elif after[name] != (start, slots):
                    changed.append(f"{name}: other bytes")
            output, _ = process.communicate("", timeout=60)
            crashes = [path.name for path in Path(folder).glob("hs_err*")]
        except UserError as error:
            texts = [path.read_text(errors="replace") for path in Path(folder).glob("hs_err*")]
            raise AssertionError(f"{error} {' '.join(' '.join(texts).split())[:900]}") from error
        finally:
            process.kill()
            process.wait()
    assert not crashes
    lines = output.splitlines()
    assert lines[0] == "done"
    assert lines[1].startswith("reloads ")
    reloads = int(lines[1].split()[1])
    return Outcome(cycles, process.returncode, reloads, len(before), tuple(changed), warm, last)


def _cycle(pid: int, programs: Programs, cycle: int, kind: Kind) -> None:
    vm = AttachedVM(pid)
    if kind == "none":
        for _ in range(2):
            vm.jcmd("VM.version")
        return
    if kind == "empty":
        start = f"start,file=/dev/shm/offheap-{pid}-{cycle:016x}.live,{_SAMPLING['sampled']}"
        for options in (start, "stop"):
            assert control.ask(vm, str(programs.empty_agent), options) == control.OK
        return
    live_file = control.start(pid, _SAMPLING[kind]).live_file
    try:
        control.detach(pid)
        if cycle % 50 == 0:
            assert recording.load(live_file).info.ended == "detached"
    finally:
        live_file.unlink(missing_ok=True)


def _memory(pid: int) -> Memory:
    """The smallest of a few readings, figure by figure.

    The load has Deflaters of 268 KB in use, threads that start and a library that is being loaded. A reading
    meets them by chance, and they hide a leak of a few bytes a cycle. Every reading has what was leaked, and
    so has the smallest.
    """
    vm, found = AttachedVM(pid), []
    for _ in range(_TRIES):
        time.sleep(_PAUSE_SECONDS)
        heap = inspect_process(pid, exact=True).native_heap
        report = nmt.parse(vm.jcmd("VM.native_memory summary scale=B"))
        assert heap
        assert heap.told_apart
        assert report
        # A reading of an arena that changes too fast misses blocks and would be the smallest.
        if heap.coverage < 1:
            continue
        categories = report.categories
        found.append(
            Memory(
                status.read(pid).rss_bytes,
                len(maps.read(pid)),
                heap.external.bytes,
                sum(one.malloc for name, one in categories.items() if name not in _NOT_HOTSPOTS),
                sum(one.arena for one in categories.values()) + categories["Arena Chunk"].malloc,
                heap.free_resident,
            )
        )
        if len(found) == _READINGS:
            return Memory(*map(min, zip(*map(astuple, found), strict=True)))
    raise AssertionError(f"only {len(found)} of {_TRIES} readings saw all of malloc")


def _slots(pid: int) -> dict[str, tuple[int, bytes]]:
    """The place of each library that stays, and the memory by which it calls others."""
    found = {}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for mapping in maps.read(pid):
            if mapping.offset == 0 and mapping.path.startswith("/") and _stays(mapping):
                if mapping.path in found:
                    continue
                try:
                    with ElfImage.open(root.mapped_file(pid, mapping)) as image:
                        found[mapping.path] = mapping.start, _read(memory.fileno(), mapping, image)
                except (OSError, ElfError):
                    continue  # hsperfdata, the class files
    return found


def _stays(mapping: Mapping) -> bool:
    return mapping.name not in (library.NAME, "plugin.so")


def _read(memory: int, mapping: Mapping, image: ElfImage) -> bytes:
    loads = image.segments[image.segments["type"] == SEGMENT_LOAD]
    bias = mapping.start - int(loads["address"][0]) // PAGE * PAGE
    sections = [section for name in _SLOTS if (section := image.section(name))]
    return b"".join(os.pread(memory, section.size, bias + section.address) for section in sections)
