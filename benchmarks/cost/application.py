"""What recording costs a server under load: requests for a second of its CPU, with and without.

    .venv/bin/python -m benchmarks.cost.application            print the table, twelve minutes
    .venv/bin/python -m benchmarks.cost.application --write    and put it into docs/measurements/server.md
    .venv/bin/python -m benchmarks.cost.application --full     10 minutes each way: two hours
    .venv/bin/python -m benchmarks.cost.application --quick    one short round, to see that it works

Server.java is Netty from Maven with BoringSSL and gzip; wrk sends requests over loopback. In one warm JVM
offheap is attached and detached between stretches without it, in changing order. So a ratio compares
stretches of one JVM, a minute apart, and not two JVMs that compiled differently. async-profiler comes last
in each JVM, because what it leaves behind would affect the others.  Each stretch with offheap begins with a
load that is not measured, since a budget bounds the recorder from its tenth second on.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import command_line
from harness.jvms import churn_jvm, java_homes
from harness.measuring import document, rounds, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import maven, variants
from offheap import recording
from offheap.analysis.totals import totals
from offheap.jvm.listener.attach import AttachedVM

BENCHMARK = Benchmark("cost.application", "measurements/server.md")
FULL = replace(BENCHMARK, part="--full")  # a section of its own, which ten minutes do not write over
NETTY, TCNATIVE = "4.1.115.Final", "2.0.69.Final"
ARTIFACTS = (
    f"io.netty:netty-codec-http:{NETTY}",
    f"io.netty:netty-tcnative-boringssl-static:{TCNATIVE}",
)
PASSWORD = "benchmark"
OPTIONS = ["-Xmx256m"]
CONNECTIONS = 16
START_SECONDS = 60.0
TRIES = 20
BASE = "nothing"
OFFHEAP = {
    "offheap 512 KiB": ["--interval", "512KiB"],
    "offheap budget 1%": ["--budget", "1%"],
}
PEER = "async-profiler 512 KiB"


@dataclass(frozen=True)
class Stretch:
    """One stretch under load: requests for a second of the server's CPU.

    `beside` is the CPU that the recorder, another process, took for a second of the server's.
    `samples` were recorded for each request.
    """

    requests: float
    beside: float = 0.0
    samples: float = 0.0

    @property
    def in_all(self) -> float:
        """Requests for a second of CPU, the recorder's included."""
        return self.requests / (1 + self.beside)


@dataclass(frozen=True)
class Load:
    """The requests of wrk to a server, and the CPU of both, in seconds."""

    requests: int
    server: float
    recorder: float


@dataclass(frozen=True)
class Bench:
    command: Sequence[str]
    scratch: Path
    peer: Path
    seconds: float
    warm_up: float
    settle: float  # seconds under load before those that are measured, with offheap

    def one_jvm(self, count: int) -> Iterator[dict[str, Stretch]]:
        """Rounds in a new JVM: each has a stretch of every variant and begins with another one."""
        names = [BASE, *OFFHEAP]
        with self.server() as (pid, port):
            for turn in range(count):
                order = names[turn % len(names) :] + names[: turn % len(names)]
                with tempfile.TemporaryDirectory(dir=self.scratch) as name:
                    found = {variant: self._stretch(variant, pid, port, Path(name)) for variant in order}
                    if turn == count - 1 and self.peer.exists():
                        found[PEER] = self._under_peer(pid, port, Path(name))
                yield found

    @contextlib.contextmanager
    def server(self) -> Iterator[tuple[int, int]]:
        """(PID, port), warm."""
        with subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            try:
                assert server.stdout
                port = re.fullmatch(r"listening (\d+) \d+\n", server.stdout.readline())
                if port is None:
                    sys.exit(f"the server did not start: {' '.join(self.command)}")
                # CPU, not time, decides: so a busy machine compiles as much as a quiet one.
                while churn_jvm.cpu_ns(server.pid) < self.warm_up * 1e9:
                    drive(server.pid, int(port[1]), 2)
                yield server.pid, int(port[1])
            finally:
                server.kill()

    def _stretch(self, variant: str, pid: int, port: int, folder: Path) -> Stretch:
        if variant == BASE:
            load = drive(pid, port, self.seconds)
            return Stretch(load.requests / load.server)
        output = folder / f"{variant}.offheap"
        with recorded(pid, variant, output) as recorder:
            before = drive(pid, port, self.settle).requests if self.settle else 0
            load = drive(pid, port, self.seconds, recorder)
        # A probe that recorded nothing would cost nothing.
        samples = totals.samples(recording.load(output))
        requests = before + load.requests
        return Stretch(load.requests / load.server, load.recorder / load.server, samples / requests)

    def _under_peer(self, pid: int, port: int, folder: Path) -> Stretch:
        profile = folder / "profile.jfr"
        start = f"start,event=nativemem,nativemem=512k,file={profile}"
        AttachedVM(pid).execute("load", str(self.peer), "true", start)
        load = drive(pid, port, self.seconds)
        return Stretch(load.requests / load.server)


@contextlib.contextmanager
def recorded(pid: int, variant: str, output: Path) -> Iterator[int]:
    """Attaches offheap for the time of the context; yields the recorder's PID."""
    attach = command_line.offheap("attach", str(pid), *OFFHEAP[variant], "-o", output)
    with subprocess.Popen(attach, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as recorder:
        try:
            _await(output, recorder)
            yield recorder.pid
            recorder.send_signal(signal.SIGINT)
            _, errors = recorder.communicate(timeout=START_SECONDS)
        finally:
            recorder.kill()
    if recorder.returncode != 0:
        sys.exit(f"offheap attach failed: {errors}")


def _await(output: Path, recorder: subprocess.Popen[str]) -> None:
    """The probe is in before the recording is made."""
    limit = time.monotonic() + START_SECONDS
    while not output.exists():
        if recorder.poll() is not None or time.monotonic() > limit:
            recorder.kill()
            sys.exit(f"offheap attach failed: {recorder.communicate()[1]}")
        time.sleep(0.1)


def drive(pid: int, port: int, seconds: float, recorder: int | None = None) -> Load:
    """Load from one thread of wrk; an answer that is an error ends the benchmark."""
    watched = [pid] if recorder is None else [pid, recorder]
    before = [churn_jvm.cpu_ns(one) for one in watched]
    wrk = ["wrk", "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{seconds:.0f}s"]
    wrk += ["--timeout", "60s", "--header", "Accept-Encoding: gzip", f"https://127.0.0.1:{port}/"]
    answered, tries = 0, 0
    # On a busy machine a young JVM may not reach its first answer in a short stretch.
    while not answered and tries < TRIES:
        tries += 1
        outcome = subprocess.run(wrk, capture_output=True, text=True, timeout=seconds + 120)
        requests = re.search(r"(\d+) requests in", outcome.stdout)
        if requests is None or re.search("Non-2xx|Socket errors", outcome.stdout):
            sys.exit(f"wrk: {outcome.stdout}{outcome.stderr}")
        answered = int(requests[1])
    if not answered:
        sys.exit(f"the server answered nothing in {TRIES} times {seconds:g} s")
    spent = [(churn_jvm.cpu_ns(one) - ns) / 1e9 for one, ns in zip(watched, before, strict=True)]
    return Load(answered, spent[0], sum(spent[1:]))


def prepare(jars: Sequence[Path], java: Path, home: Path, folder: Path) -> list[str]:
    """Compiles the server and makes its certificate; its command line."""
    path = ":".join(map(str, [folder, *jars]))
    source = Path(__file__).with_name("Server.java")
    _tool(home / "bin" / "javac", "-nowarn", "--release", "11", "-cp", path, "-d", folder, source)
    keys = folder / "keys.p12"
    pair = ["-genkeypair", "-alias", "server", "-keyalg", "RSA", "-dname", "CN=localhost", "-validity", "365"]
    _tool(home / "bin" / "keytool", *pair, "-storetype", "PKCS12", "-storepass", PASSWORD, "-keystore", keys)
    return [str(java), *OPTIONS, "-cp", path, "Server", str(keys), PASSWORD]


def _tool(*command: str | Path) -> None:
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if outcome.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{outcome.stdout}{outcome.stderr}")


def table(measured: Sequence[dict[str, Stretch]]) -> list[str]:
    rows = []
    for name in (BASE, *OFFHEAP, PEER):
        own = [one[name] for one in measured if name in one]
        if not own:
            rows.append([name, "absent", *[""] * 4])
            continue
        mean = sum(one.requests for one in own) / len(own)
        base = [one[BASE].requests for one in measured if name in one]
        ratio = rounds.paired([one.requests for one in own], base)
        in_all = rounds.paired([one.in_all for one in own], base)
        beside = sum(one.beside for one in own) / len(own)
        samples = sum(one.samples for one in own) / len(own)
        ours = name in OFFHEAP
        rows.append(
            [
                name,
                f"{mean:,.0f}",
                "" if name == BASE else str(ratio),
                str(in_all) if ours else "",
                f"{samples:.2f}" if ours else "",
                f"{beside:.1%}" if ours else "",
            ]
        )
    header = [
        *("", "requests a CPU second", "against nothing, 95 %", "with its recorder's CPU, 95 %"),
        *("samples a request", "its recorder's CPU"),
    ]
    return document.table(header, rows)


@contextlib.contextmanager
def bench_or_lack(jdk: int, seconds: float, warm_up: float, settle: float) -> Iterator[Bench | str]:
    """The benchmark, or what the machine lacks for it."""
    peer = variants.fetch_async_profiler(ROOT / "build" / "peers")
    jars = maven.fetch_with_dependencies(ARTIFACTS, ROOT / "build" / "application")
    homes, java = java_homes.jdk_homes(), java_homes.java(jdk)
    if lacks := missing(jars, homes, java):
        yield lacks
        return
    with runner.scratch() as scratch:
        yield Bench(prepare(jars, java, homes[min(homes)], scratch), scratch, peer, seconds, warm_up, settle)


def missing(jars: Sequence[Path], homes: dict[int, Path], java: Path) -> str:
    """What the benchmark lacks on this machine; empty if nothing."""
    lacks = []
    if not jars:
        lacks.append("Netty (mvn and its repository)")
    if shutil.which("wrk") is None:
        lacks.append("wrk")
    if not homes:
        lacks.append("a JDK")
    if not java.exists():
        lacks.append(f"{java.relative_to(ROOT)} (`make jres`)")
    return ", ".join(lacks)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "requests of a server for a second of CPU, twelve minutes",
        quick="one round of 2 s; says only that it runs",
    )
    parser.add_argument("--jvms", type=int, default=4, help="one after the other")
    parser.add_argument("--rounds", type=int, default=3, help="in each JVM; of async-profiler one")
    parser.add_argument("--seconds", type=float, default=8, help="under load, of each variant in a round")
    parser.add_argument("--warm-up", type=float, default=40, metavar="SECONDS", help="of CPU, of each JVM")
    parser.add_argument(
        "--settle", type=float, default=10, metavar="SECONDS", help="under load, before what is measured"
    )
    parser.add_argument("--jdk", type=int, default=17, choices=java_homes.JRE_VERSIONS)
    parser.add_argument(
        "--full", action="store_true", help="7 JVMs, 11 rounds: 10 minutes each way, two hours in all"
    )
    options = parser.parse_args(arguments)
    jvms, count, seconds, warm_up = options.jvms, options.rounds, options.seconds, options.warm_up
    settle = options.settle
    if options.full:
        # Stretches are short because the host's load changes within a minute.
        jvms, count, seconds = 7, 11, 8.0
    if options.quick:
        jvms, count, seconds, warm_up, settle = 1, 1, 2.0, 4.0, 0.0

    lines = [
        f"{BENCHMARK.ran('--jvms', jvms, '--rounds', count, '--seconds', f'{seconds:g}')}: "
        f"{document.machine()}, {document.load()}; "
        f"JDK {options.jdk}, Netty {NETTY}, async-profiler {variants.ASYNC_PROFILER}.",
        "",
    ]
    with bench_or_lack(options.jdk, seconds, warm_up, settle) as bench:
        if isinstance(bench, str):
            lines.append(f"*absent*: the machine lacks {bench}.")
        else:
            measured = []
            for number in range(jvms):
                for one in bench.one_jvm(count):
                    measured.append(one)
                    figures = (f"{variant} {stretch.requests:,.0f}" for variant, stretch in one.items())
                    print(f"JVM {number + 1} of {jvms}: {', '.join(figures)}", flush=True)
            lines += table(measured)
    (FULL if options.full else BENCHMARK).publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
