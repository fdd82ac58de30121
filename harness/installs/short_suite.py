"""Every command of an installed offheap on one real JVM, in half a minute.

The Python that has offheap installed runs it, without pytest and without the checkout's sources:
`python short_suite.py --java JAVA --javac JAVAC`. What leaks is the package's own demo program.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OFFHEAP = (sys.executable, "-m", "offheap")
MAIN = "com.example.shop.Shop"
# The program and the function that leak, as the stack names them.
LEAK = ("java.util.zip.Inflater.init", "com.example.shop.pricing.PriceImport.openFeed")
SECONDS = 12
PATIENCE = 120.0
# A message of Python or numpy about deprecated or doubtful use.
WARNED = re.compile(r"\w*Warning\b|Traceback|internal error|Exception ignored")


class Failed(Exception):
    """A check found something else than it should; the message says what."""


@dataclass(frozen=True)
class Scene:
    """What the checks work on: a JVM that leaks, and a recording of one that has ended."""

    folder: Path
    java: Path
    pid: int
    jdk: int
    recorder: subprocess.Popen[str]  # `offheap run` of a second such JVM

    @property
    def ran(self) -> Path:
        return self.folder / "ran.offheap"

    @property
    def attached(self) -> Path:
        return self.folder / "attached.offheap"


def offheap(scene: Scene, *arguments: str | Path, status: int = 0) -> str:
    """The command's standard output; Failed on another exit status, and on any warning."""
    return finished(subprocess.Popen([*OFFHEAP, *map(str, arguments)], **_captured(scene.folder)), status)


def answer(scene: Scene, *arguments: str | Path, status: int = 0) -> dict[str, Any]:
    """What the command says with --json."""
    told: dict[str, Any] = json.loads(offheap(scene, *arguments, "--json", status=status))
    expect(told["schema"].startswith("offheap."), f"the schema is {told['schema']}")
    return told


def finished(process: subprocess.Popen[str], status: int = 0) -> str:
    output, errors = process.communicate(timeout=PATIENCE)
    if process.returncode != status:
        raise Failed(f"{_words(process)} ended with {process.returncode}, not {status}: {errors[-2000:]}")
    if WARNED.search(errors):
        raise Failed(f"{_words(process)} warned: {errors[-2000:]}")
    return output


def expect(truth: object, otherwise: str) -> None:
    if not truth:
        raise Failed(otherwise)


def check_run(scene: Scene) -> None:
    finished(scene.recorder)


def check_where(scene: Scene) -> None:
    found = answer(scene, "where", str(scene.pid), "--exact")
    owned = sum(owner["bytes"] for owner in found["owners"])
    gap = abs(owned + found["unattributed_bytes"] - found["rss_bytes"])
    expect(gap <= found["rss_bytes"] / 100, f"owners miss {gap} bytes of {found['rss_bytes']}")
    names = {owner["owner"] for owner in found["owners"] if owner["bytes"] > 0}
    expect(
        {"java-heap", "metaspace", "code-cache", "thread-stacks", "malloc"} <= names, f"owners are {names}"
    )
    share = found["unattributed_bytes"] / found["rss_bytes"]
    expect(share < 0.02, f"{share:.1%} of the RSS has no owner")
    watched = answer(scene, "where", str(scene.pid), "--watch", "4s", "--every", "1s")
    expect(watched["verdict"]["kind"], f"no verdict: {watched['verdict']}")
    expect("java-heap" not in offheap(scene, "where", str(scene.pid), "-v"), "text shows a key of the JSON")


def check_nmt(scene: Scene) -> None:
    found = answer(scene, "nmt", str(scene.pid), "--detail")
    names = {category["name"] for category in found["categories"]}
    expect({"Java Heap", "Class", "Thread", "Code"} <= names, f"categories are {sorted(names)}")
    expect(found["external"], f"no External: {sorted(found)}")
    kept = scene.folder / "nmt.json"
    offheap(scene, "nmt", str(scene.pid), "-o", kept)
    expect("Total" in offheap(scene, "nmt", str(scene.pid), "--diff", kept), "--diff prints no Total")


def check_trim(scene: Scene) -> None:
    if scene.jdk >= 17:
        found = answer(scene, "trim", str(scene.pid))
        expect(found["before"]["rss_bytes"] > 0 and found["after"]["rss_bytes"] > 0, f"trim says {found}")


def check_ps(scene: Scene) -> None:
    pids = [jvm["pid"] for jvm in answer(scene, "ps")["jvms"]]
    expect(scene.pid in pids, f"{scene.pid} is not among {pids}")


def check_attach(scene: Scene) -> None:
    arguments = ("--duration", f"{SECONDS}s", "--interval", "16KiB", "-o", scene.attached)
    found = answer(scene, "attach", str(scene.pid), *arguments)
    expect(found["recording"], f"attach says {found}")
    expect(Path(f"/proc/{scene.pid}").exists(), "the JVM is gone")


def check_java_heap(scene: Scene) -> None:
    recording = scene.folder / "heap.offheap"
    arguments = ("--java-heap-interval", "16KiB", "--gc", "--duration", "8s", "-o", recording)
    offheap(scene, "attach", str(scene.pid), *arguments)
    found = answer(scene, "leaks", recording, "--all")["java_heap"]
    expect(found["books"] and found["books"]["agrees"], f"the books are {found['books']}")
    expect(found["survivors"]["bytes"]["estimate"] > 0, f"survivors are {found['survivors']}")
    innermost = {suspect["stack"][0]["kind"] for suspect in found["suspects"] if suspect["stack"]}
    expect(innermost == {"class"}, f"the innermost frames are {innermost}")
    expect("Java heap" in offheap(scene, "leaks", recording, "--all"), "leaks says nothing of the Java heap")


def check_leaks(scene: Scene) -> None:
    for recording in (scene.ran, scene.attached):
        found = answer(scene, "leaks", recording)
        expect(found["recording"]["java_version"], "no Java version")
        first = found["suspects"][0]
        names = [frame["name"] for frame in first["stack"]]
        expect(first["verdict"] in ("leak", "growing"), f"{recording.name}: the first is {first['verdict']}")
        expect(all(any(name in one for one in names) for name in LEAK), f"{recording.name}: {names}")
        expect("inflateInit2_" in names, f"zlib's function has no name: {names}")
        joined = [frame for frame in first["stack"] if frame["kind"] == "java" and frame["line"]]
        expect(joined, "no line of a Java frame")
        expect("Inflater" in offheap(scene, "leaks", recording, "--all", "-v"), "no Inflater in the text")


def check_names(scene: Scene) -> None:
    tree = offheap(scene, "leaks", scene.ran, "--all", "--json")
    frames = [frame for suspect in json.loads(tree)["suspects"] for frame in suspect["stack"]]
    mangled = [frame["name"] for frame in frames if re.match(r"_(Z|R)", frame["name"])]
    expect(not mangled, f"names are mangled: {mangled[:3]}")
    jvm = [frame for frame in frames if frame["module"].endswith("libjvm.so") and "::" in frame["name"]]
    expect(jvm, "no function of the JVM has a name")


def check_diff(scene: Scene) -> None:
    found = answer(scene, "diff", scene.ran, scene.attached)
    expect("sites" in found, f"diff has {sorted(found)}")
    page = scene.folder / "diff.html"
    offheap(scene, "diff", scene.ran, "--from", "3s", "--to", "9s", "-o", page)
    expect(page.stat().st_size > 50_000, "diff.html is small")


def check_check(scene: Scene) -> None:
    junit = scene.folder / "offheap.xml"
    found = answer(scene, "check", scene.ran, "--max-growth", "1KiB/min", "--junit", junit, status=1)
    expect(found, "check says nothing")
    expect("<testsuite" in junit.read_text(), "no JUnit XML")
    offheap(scene, "check", scene.ran, "--max-live", "100GiB")


def check_report(scene: Scene) -> None:
    for suffix, holds in (("html", "Inflater"), ("md", "Inflater"), ("txt", "Inflater"), ("json", "{")):
        page = scene.folder / f"report.{suffix}"
        offheap(scene, "report", scene.ran, "-o", page)
        expect(page.stat().st_size > 500, f"report.{suffix} is small")
        expect(suffix == "html" or holds in page.read_text("utf-8"), f"report.{suffix} has no {holds}")
    for command in ("summary", "tree", "stats"):
        expect(offheap(scene, command, scene.ran), f"{command} prints nothing")


def check_export(scene: Scene) -> None:
    for name, suffix in (
        ("pprof", ".pb.gz"),
        ("otlp", ".otlp"),
        ("speedscope", ".speedscope.json"),
        ("parquet", ".parquet"),
    ):
        offheap(scene, "export", scene.ran, "--format", name)
        expect((scene.folder / f"ran{suffix}").stat().st_size > 500, f"{name} is small")
    # As collectors of 2026 read them; older packages number the fields differently.
    numbers = """
from opentelemetry.proto.profiles.v1development.profiles_pb2 import Sample
fields = Sample.DESCRIPTOR.fields_by_name
assert (fields["attribute_indices"].number, fields["values"].number) == (2, 4)
"""
    finished(subprocess.Popen([sys.executable, "-c", numbers], **_captured(scene.folder)))
    lines = offheap(scene, "export", scene.ran, "--format", "collapsed", "-o", "-").splitlines()
    expect(any("Inflater.init" in line for line in lines), "no stack of the Inflater")


def check_live(scene: Scene) -> None:
    screen = _in_a_terminal([*OFFHEAP, "live", str(scene.ran)], until="Inflater", then="q")
    expect("Inflater" in screen, f"live shows {screen[-500:]!r}")
    expect(not WARNED.search(screen), f"live warned: {screen[-2000:]!r}")


def check_api(scene: Scene) -> None:
    script = """
import sys, offheap
recording = offheap.open(sys.argv[1])
assert recording.info.pid
assert len(recording.live["size"]) == len(recording.live["stack"])
assert recording.sql("SELECT count(*) FROM live").fetchall()[0][0] > 0
print(recording.suspects[0].verdict)
"""
    command = [sys.executable, "-c", script, str(scene.ran)]
    expect(finished(subprocess.Popen(command, **_captured(scene.folder))).strip(), "no verdict")


CHECKS: dict[str, Callable[[Scene], None]] = {
    "where": check_where,
    "nmt": check_nmt,
    "run": check_run,
    "attach": check_attach,
    "java heap": check_java_heap,
    "trim": check_trim,
    "ps": check_ps,
    "leaks": check_leaks,
    "names": check_names,
    "diff": check_diff,
    "check": check_check,
    "report": check_report,
    "export": check_export,
    "live": check_live,
    "API": check_api,
}


def _captured(folder: Path) -> dict[str, Any]:
    return {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "cwd": folder,
        "env": {**os.environ, "PYTHONWARNINGS": "error", "PYTHONSAFEPATH": "1", "COLUMNS": "100"},
    }


def _words(process: subprocess.Popen[str]) -> str:
    assert isinstance(process.args, list)
    return "offheap " + " ".join(map(str, process.args[3:]))


def _in_a_terminal(command: list[str], until: str, then: str) -> str:
    """What a command shows on a terminal of 30 lines, until `until` and after `then` was typed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", PYTHONWARNINGS="error")
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    shown, deadline, typed = b"", time.monotonic() + 60, False
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            with contextlib.suppress(OSError):  # EIO: the command has ended
                if piece := os.read(terminal, 65536):
                    shown += piece
                    if not typed and until.encode() in shown:
                        os.write(terminal, then.encode())
                        typed = True
                    continue
            break
        status = os.waitstatus_to_exitcode(_wait(pid, 20))
    finally:
        os.close(terminal)
    text = shown.decode("utf-8", "replace")
    expect(status == 0, f"{' '.join(command[2:])} ended with {status}: {text[-2000:]!r}")
    return text


def _wait(pid: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


@contextlib.contextmanager
def scene(java: Path, javac: Path) -> Iterator[Scene]:
    """The demo program compiled and running, and a second one that `offheap run` records."""
    folder = Path(tempfile.mkdtemp(prefix="offheap-suite-"))
    try:
        import offheap as installed

        classes = folder / "classes"
        sources = sorted(map(str, (Path(installed.__file__).parent / "demo").rglob("*.java")))
        compile_demo = [str(javac), "-nowarn", "--release", "11", "-d", str(classes), *sources]
        subprocess.run(compile_demo, check=True, timeout=PATIENCE)
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
        found = re.search(r'version "(\d+)', told.stderr)
        expect(found, f"{java} -version says {told.stderr!r}")
        assert found
        command = [str(java), "-Xmx64m", "-Xmn4m", "-XX:NativeMemoryTracking=detail"]
        command += ["-cp", str(classes), MAIN]
        waits = subprocess.Popen([*command, "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run = [*OFFHEAP, "run", "--interval", "16KiB", "-o", "ran.offheap", "--", *command, str(SECONDS)]
        recorder = subprocess.Popen(run, **_captured(folder))
        try:
            yield Scene(folder, java, waits.pid, int(found[1]), recorder)
        finally:
            if recorder.poll() is None:
                recorder.terminate()
                recorder.communicate(timeout=30)
            waits.kill()
            waits.wait()
            Path(f"/tmp/.java_pid{waits.pid}").unlink(missing_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--java", type=Path, required=True, help="the JVM to try")
    parser.add_argument("--javac", type=Path, required=True, help="compiles the program for Java 11")
    parser.add_argument("--json", type=Path, help='where to write {check: reason why it failed, or ""}')
    options = parser.parse_args()
    outcomes: dict[str, str] = {}
    started = time.monotonic()
    try:
        with scene(options.java.absolute(), options.javac.absolute()) as made:
            for name, check in CHECKS.items():
                began = time.monotonic()
                try:
                    check(made)
                    outcomes[name] = ""
                except Exception as error:
                    outcomes[name] = f"{type(error).__name__}: {error}"
                print(f"{name:9} {outcomes[name] or 'ok'}  {time.monotonic() - began:.1f} s", flush=True)
    except Exception as error:
        outcomes["start"] = f"{type(error).__name__}: {error}"
        print(f"start     {outcomes['start']}", flush=True)
    failed = [name for name, reason in outcomes.items() if reason]
    took = time.monotonic() - started
    print(f"{len(outcomes) - len(failed)} checks passed, {len(failed)} failed, {took:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(outcomes))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
