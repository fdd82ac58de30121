"""One JVM under load, with a library loaded and closed in a loop, that the probe enters and leaves again.

What must hold: it lives and ends as it would have, every slot by which its libraries call each other has its
first bytes again, and its memory does not grow with the number of times.  `make soak` does it 1,000 times on
each JDK (benchmarks/reattach.py), test_reattach.py a few times on one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from native import PROBE, compile_c
from offheap import recording
from offheap.errors import UserError
from offheap.jvm import library, probe
from offheap.jvm.attach import AttachedVM
from offheap.proc import maps, root, status
from offheap.proc.elf import SEGMENT_LOAD, ElfError, ElfImage
from offheap.proc.maps import Mapping
from offheap.proc.pagemap import PAGE

TESTS = Path(__file__).parent
STATUS = 7
# Java heap of one size and one JIT compiler: what still grows is malloc's.
_OPTIONS = ("-Xms32m", "-Xmx32m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SLOTS = (".got", ".got.plt", ".data.rel.ro", ".data.rel.ro.local")


@dataclass(frozen=True)
class Memory:
    rss_bytes: int
    mappings: int


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
    def growth_per_cycle(self) -> float:
        """Bytes of RSS for each cycle after the first tenth."""
        return (self.last.rss_bytes - self.warm.rss_bytes) / (self.cycles - self.cycles // 10)


@dataclass(frozen=True)
class Programs:
    """What the JVM runs, compiled."""

    classes: Path
    reloader: Path
    plugin: Path


def build(jdk_home: Path, folder: Path) -> Programs:
    source = TESTS / "java" / "Churning.java"
    command: list[str | Path] = [jdk_home / "bin" / "javac", "--release", "11", "-d", folder, source]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    shared = ["-shared", "-fPIC"]
    reloader = compile_c(
        [TESTS / "agents" / "reloader.c"], folder / "reloader.so", flags=shared, libraries=["dl", "pthread"]
    )
    return Programs(
        folder, reloader, compile_c([PROBE / "tests" / "plugin.c"], folder / "plugin.so", flags=shared)
    )


def run(java: Path, programs: Programs, cycles: int, *, exact: bool, attach: bool = True) -> Outcome:
    """AssertionError when the JVM ends before it is told to, or a recording cannot be read.

    Without `attach` it is asked for its version as often as it would get the probe: what that costs anyhow.
    """
    # Everything bound from the start: a slot that is bound later has other bytes by right.
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
            AttachedVM(process.pid).jcmd("VM.version")  # starts the JVM's listener
            before, changed = _slots(process.pid), []
            for cycle in range(cycles):
                if cycle == cycles // 10:
                    warm = _memory(process.pid)
                _cycle(process.pid, cycle, exact=exact, attach=attach)
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


def _cycle(pid: int, cycle: int, *, exact: bool, attach: bool) -> None:
    if not attach:
        for _ in range(2):
            AttachedVM(pid).jcmd("VM.version")
        return
    live_file = probe.start(pid, "exact" if exact else "interval=4096").live_file
    try:
        probe.detach(pid)
        if cycle % 50 == 0:
            assert recording.load(live_file).info.ended == "detached"
    finally:
        live_file.unlink(missing_ok=True)


def _memory(pid: int) -> Memory:
    return Memory(status.read(pid).rss_bytes, len(maps.read(pid)))


def _slots(pid: int) -> dict[str, tuple[int, bytes]]:
    """Of each library that stays: where it lies, and all the memory by which it calls others."""
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
