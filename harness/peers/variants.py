"""The variants that benchmarks compare: nothing, offheap in its modes, and the peers, as environments.

A peer that is not on the machine stays in every table as absent. Peers come from the Debian packages
libjemalloc2, libgoogle-perftools4 and heaptrack, and for async-profiler Maven and its repository.
"""

from __future__ import annotations

import platform
import re
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.peers import maven

ASYNC_PROFILER = "4.6"
DEBIAN_LIBRARIES = Path("/usr/lib")
DEBIAN_PACKAGES = ("libjemalloc2", "libgoogle-perftools4", "heaptrack")


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to run a program.

    library      preloaded (JVMs: `agent` instead, where there is one); None: nothing is
    environment  `{folder}` in a value is a scratch folder in memory that is emptied after the run
    agent        options of the library as a JVM's agent
    depths       measured at every depth of call stack: its cost is in walking it
    slow         so slow that it is measured in one round
    """

    name: str
    library: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    agent: str | None = None
    depths: bool = False
    slow: bool = False

    @property
    def present(self) -> bool:
        return self.library is None or self.library.exists()

    def environment_in(self, folder: Path) -> dict[str, str]:
        values = {name: value.format(folder=folder) for name, value in self.environment.items()}
        return {**values, "LD_PRELOAD": str(self.library)} if self.library else values

    def agent_in(self, folder: Path) -> list[str]:
        return [f"-agentpath:{self.library}={self.agent.format(folder=folder)}"] if self.agent else []


BASE = Variant("nothing")


def offheap(library: Path) -> list[Variant]:
    """offheap preloaded: idle (no sample ever comes), a sample every 512 KiB, 1 % of CPU, and every block."""
    return [
        # It records, but a sample every 1 PiB never comes: the cost of hooks that pass everything on.
        Variant("offheap idle", library, {"OFFHEAP": "interval=1048576g,dir={folder}"}),
        Variant("offheap 512 KiB", library, {"OFFHEAP": "interval=512k,dir={folder}"}),
        Variant("offheap budget 1%", library, {"OFFHEAP": "budget=1%,dir={folder}"}),
        Variant("offheap exact", library, {"OFFHEAP": "exact,dir={folder}"}, depths=True),
    ]


def async_profiler(library: Path) -> list[Variant]:
    def variant(name: str, interval: str) -> Variant:
        command = f"start,event=nativemem,nativemem={interval},file={{folder}}/profile.jfr"
        return Variant(
            f"async-profiler {name}",
            library,
            {"ASPROF_COMMAND": command},
            agent=command,
            depths=interval == "0",
        )

    return [variant("512 KiB", "512k"), variant("every", "0")]


def allocators(heaptrack_output: str = "/dev/null") -> list[Variant]:
    """Allocators with a heap profiler, without and with it, and heaptrack."""
    libraries = DEBIAN_LIBRARIES / f"{platform.machine()}-linux-gnu"
    jemalloc, tcmalloc = libraries / "libjemalloc.so.2", libraries / "libtcmalloc.so.4"
    heaptrack = DEBIAN_LIBRARIES / "heaptrack" / "libheaptrack_preload.so"
    profiling = {"MALLOC_CONF": "prof:true,lg_prof_sample:19,prof_final:true,prof_prefix:{folder}/jeprof"}
    return [
        Variant("jemalloc", jemalloc),
        Variant("jemalloc prof 512 KiB", jemalloc, profiling),
        Variant("tcmalloc", tcmalloc),
        Variant("gperftools HEAPPROFILE", tcmalloc, {"HEAPPROFILE": "{folder}/heap"}, depths=True, slow=True),
        # Its interpreter, which uses as much CPU again, does not run beside it.
        Variant("heaptrack", heaptrack, {"DUMP_HEAPTRACK_OUTPUT": heaptrack_output}, depths=True),
    ]


def fetch_async_profiler(folder: Path) -> Path:
    """async-profiler's library from its Maven artifact; a path that is not there if it cannot be had."""
    library = folder / f"async-profiler-{ASYNC_PROFILER}" / "libasyncProfiler.so"
    if not library.exists():
        artifact = maven.fetch(f"tools.profiler:async-profiler:{ASYNC_PROFILER}", folder)
        if artifact.exists():
            member = f"linux-{'x64' if platform.machine() == 'x86_64' else 'arm64'}/libasyncProfiler.so"
            library.parent.mkdir(exist_ok=True)
            with zipfile.ZipFile(artifact) as jar:
                library.write_bytes(jar.read(member))
    return library


def versions() -> str:
    """Which peers these are, in one line."""
    found = [f"async-profiler {ASYNC_PROFILER}"]
    for package in DEBIAN_PACKAGES:
        query = ["dpkg-query", "-W", "-f", "${Package} ${Version}", package]
        try:
            outcome = subprocess.run(query, capture_output=True, text=True, timeout=30)
        except OSError:
            break
        if outcome.returncode == 0 and re.search(r" \S", outcome.stdout):
            found.append(outcome.stdout)
    return ", ".join(found)
