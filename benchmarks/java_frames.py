"""Are the Java frames true?  15 programs on each JDK: which samples have them, and was each frame there?

    .venv/bin/python benchmarks/java_frames.py --seconds 8 --write

Each program runs under a build of the probe that, at every walk, asks AsyncGetCallTrace and the probe's own
walk and times both (probe/tests/compare_walks.c).  Every block is recorded.

Each call that a stack states (who was called, by whom) is looked up in the caller's bytecode: does it call a
method of that name, or do what the VM's function is for, or is it the native method that the function is?
Where that does not tell, a foreign function say, the program runs again: with -XX:+DebugNonSafepoints, where
the debug record behind a call is its own, then interpreted, where each frame says itself what it is.  A call
that neither sees is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import document  # noqa: E402
import published  # noqa: E402

import zoo as zoo_programs  # noqa: E402
from offheap import checkout, recording  # noqa: E402
from offheap.errors import UserError  # noqa: E402
from offheap.recording import live_files  # noqa: E402
from offheap.recording.model import Frame, Kind, Recording  # noqa: E402
from offheap.recording.recorder import record  # noqa: E402

DOCUMENT = ROOT / "docs" / "evaluation.md"
ZOO = ("inflaters", "direct-buffers", "thread-map", "ffm")
PUBLISHED = (
    *("zstd-orders", "jna-labels", "sqlite-ledger", "rocksdb-carts", "netty-audit", "jetty-exports"),
    *("tcnative-upstreams", "conscrypt-peers", "agent-orders", "lucene-search", "spark-shop"),
)
GOAL = 0.995  # of the samples of Java threads have Java frames
RECORDS = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints")
INTERPRETED = ("-Xint",)
# probe/tests/compare_walks.h, at the end of a live file's header.
COMPARED = ("walks", "async", "own", "both", "same", "corrected", "cut", "async_ns", "own_ns")
HEADER_BYTES = 4096
CLASSES_AT_ONCE = 400

# -> the command line of one run in a scratch folder, with options more
Command = Callable[[Path, Sequence[str]], list[str]]
Methods = dict[str, set[str]]  # method -> opcodes, names of what it calls, and "native"

# What of a method's code leads to a function of the VM, by a part of that one's name; any leads to others.
INVOKE = frozenset({"invokevirtual", "invokespecial", "invokestatic", "invokeinterface", "invokedynamic"})
ARRAY = frozenset({"newarray", "anewarray", "multianewarray"})
ENTRIES = {
    "new_instance": frozenset({"new"}),
    "_new(": frozenset({"new"}),
    "new_array": ARRAY,
    "newarray": ARRAY,
    "multianewarray": ARRAY,
    "resolve_virtual": INVOKE,
    "resolve_static": INVOKE,
    "resolve_opt_virtual": INVOKE,
}


@dataclass(frozen=True)
class Call:
    """`kind` is the callee's."""

    callee: str
    caller: str
    kind: Kind


@dataclass(frozen=True)
class Seen:
    """One run."""

    joined: int
    lost: int
    inexact: int
    walks: dict[str, int]
    calls: Counter[Call]  # samples


@dataclass
class Tally:
    """A program on a JDK, or several of them."""

    joined: int = 0
    lost: int = 0
    inexact: int = 0
    calls: int = 0  # samples of calls that are stated as fact
    wrong: int = 0  # of these
    walks: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.joined += other.joined
        self.lost += other.lost
        self.inexact += other.inexact
        self.calls += other.calls
        self.wrong += other.wrong
        self.walks.update(other.walks)

    @property
    def share(self) -> float:
        return self.joined / max(1, self.joined + self.lost)

    def row(self) -> tuple[str, ...]:
        walks, both = self.walks, max(1, self.walks["both"])
        return (
            f"{self.joined + self.lost:,}",
            f"{100 * self.share:.2f} %",
            f"{100 * self.inexact / max(1, self.joined):.2f} %",
            f"{self.wrong} of {self.calls:,}",
            f"{walks['walks']:,}",
            f"{100 * walks['async'] / max(1, walks['walks']):.2f} %",
            f"{100 * walks['own'] / max(1, walks['walks']):.2f} %",
            f"{100 * walks['same'] / both:.2f} %",
            f"{100 * (walks['corrected'] + walks['cut']) / both:.2f} %",
            f"{walks['async_ns'] // max(1, walks['walks']):,}",
            f"{walks['own_ns'] // max(1, walks['walks']):,}",
        )


HEAD = (
    *("samples of Java threads", "with Java frames", "of these inexact", "wrong calls", "walks"),
    *("AsyncGetCallTrace has frames", "own walk has frames", "the same", "the same once put right"),
    *("ns AsyncGetCallTrace", "ns own walk"),
)


def calls_of(found: Recording) -> Counter[Call]:
    """Who called whom, by samples: from the native function that Java called to the outermost frame.

    What is marked as uncertain is no statement: a gap, and whatever stands beside one.
    """
    latest = {int(row["stack"]): int(row["samples"]) for row in found.series}
    counted: Counter[Call] = Counter()
    for number, samples in latest.items():
        stack = found.stack(number)
        first = next((i for i, frame in enumerate(stack) if frame.kind == "java"), None)
        if first is None or not samples:
            continue
        near = stack[max(0, first - 1) :]
        for callee, caller in itertools.pairwise(near):
            if caller.kind == "java" and callee.kind != "unknown":
                counted[Call(_name(callee), _name(caller), callee.kind)] += samples
    return counted


def _name(frame: Frame) -> str:
    return frame.name if frame.kind == "java" else re.sub(r"\(.*", "(", frame.name)


def run(command: Command, options: Sequence[str], seconds: float, probe: Path) -> Seen:
    with tempfile.TemporaryDirectory(prefix="offheap-java-frames-") as name:
        folder = Path(name)
        scratch = folder / "scratch"
        scratch.mkdir()
        variables = {"LD_PRELOAD": str(probe), "OFFHEAP": f"exact,dir={folder}"}
        with zoo_programs.Running(command(scratch, options), variables) as running:
            (path,) = [one.path for one in live_files.inside(folder) if one.pid == running.pid]
            with path.open("rb", buffering=0) as file:
                record(path, folder / "a.offheap", every=2.0, duration=seconds)
                running.exit()
                header = os.pread(file.fileno(), HEADER_BYTES, 0)
        found = recording.load(folder / "a.offheap")
    counts = struct.unpack_from(f"<{len(COMPARED)}Q", header, HEADER_BYTES - 8 * len(COMPARED))
    return Seen(
        joined=found.info.joined,
        lost=found.info.lost.get("lost_java", 0),
        inexact=found.info.lost.get("java_inexact", 0),
        walks=dict(zip(COMPARED, counts, strict=True)),
        calls=calls_of(found),
    )


class Bytecode:
    """What the methods of a program call, as javap tells."""

    def __init__(self, javap: Path, home: Path, class_path: str) -> None:
        self._command = [str(javap), "-p", "-c", "--system", str(home), "-cp", class_path]
        self._classes: dict[str, Methods] = {}

    def read(self, classes: Iterable[str]) -> None:
        """Reads these, many at once: each start of javap takes a second."""
        wanted = sorted(set(classes) - self._classes.keys())
        for at in range(0, len(wanted), CLASSES_AT_ONCE):
            some = wanted[at : at + CLASSES_AT_ONCE]
            outcome = subprocess.run([*self._command, *some], capture_output=True, text=True, timeout=300)
            # Hidden classes, and those of arrays, are not found.
            self._classes.update({**{name: {} for name in some}, **parse(outcome.stdout)})

    def calls(self, caller: str, callee: str) -> bool:
        """Whether the caller's code calls a method of the callee's name, or may have it called by the VM."""
        of, _, method = caller.rpartition(".")
        its = self._methods(of)
        if not its:  # a hidden class, say, has no file
            return True
        called = its.get(method, set())
        _, _, name = callee.rpartition(".")
        # A class is loaded and initialised by what uses it first.
        by_the_vm = {"<clinit>", "loadClass", "loadClassInternal", "linkCallSite", "linkMethodHandleConstant"}
        return name in called or name in by_the_vm or "invokedynamic" in called or "native" in called

    def is_native(self, method: str) -> bool:
        of, _, name = method.rpartition(".")
        return "native" in self._methods(of).get(name, set())

    def needs(self, caller: str, function: str) -> bool:
        """Whether the caller's code has what makes it call this function of the VM."""
        of, _, method = caller.rpartition(".")
        its = self._methods(of)
        if not its or method not in its:
            return True
        wanted = next((words for name, words in ENTRIES.items() if name in function), None)
        return wanted is None or bool(wanted & its[method]) or "invokedynamic" in its[method]

    def _methods(self, name: str) -> Methods:
        return self._classes.get(name, {})


def parse(text: str) -> dict[str, Methods]:
    """What javap -c prints of classes: by class and method the opcodes, and the names of methods called."""
    classes: dict[str, Methods] = {}
    methods: Methods = {}
    current: set[str] = set()
    name = ""
    for line in text.splitlines():
        if match := re.match(r"(?:\w+ )*(?:class|interface) ([\w$.]+).*\{$", line):
            name = match[1]
            methods = classes.setdefault(name, {})
        elif re.match(r"  \S.*[;{]$", line):
            header = re.search(r"([\w$.<>]+)\(", line)
            method = "<clinit>" if "static {}" in line else header[1] if header else ""
            current = methods.setdefault("<init>" if method == name else method, set())
            if " native " in line:
                current.add("native")
        elif match := re.search(r"// (?:Interface)?Method (?:\S+?\.)?\"?([\w$<>]+)\"?:", line):
            current.add(match[1])
        if match := re.match(r"\s+\d+: (\w+)", line):
            current.add(match[1])
    return classes


def is_doubtful(call: Call, bytecode: Bytecode) -> bool:
    """Whether the caller's code does not tell that it made the call.

    The VM itself links calls of method and variable handles to code of java.lang.invoke.
    """
    if call.callee.startswith("java.lang.invoke.") and call.kind == "java":
        return False
    if call.callee.startswith("Java_"):
        return jni_method(call.callee) != call.caller.replace("$", ".")
    if call.kind == "jvm":
        return not bytecode.needs(call.caller, call.callee)
    if call.kind == "native":
        return not bytecode.is_native(call.caller)
    return not bytecode.calls(call.caller, call.callee)


def jni_method(symbol: str) -> str:
    """`Java_java_util_zip_Inflater_init` -> `java.util.zip.Inflater.init`."""
    words = re.sub(r"__.*", "", symbol.removeprefix("Java_"))
    words = re.sub(r"_0([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), words)
    return words.replace("_1", "\0").replace("_", ".").replace("\0", "_").replace("$", ".")


def compare(command: Command, bytecode: Bytecode, seconds: float, probe: Path) -> tuple[Tally, list[str]]:
    """The figures of one program, and what was found wrong."""
    plain = run(command, (), seconds, probe)
    bytecode.read(call.caller.rpartition(".")[0] for call in plain.calls)
    doubtful = {call: samples for call, samples in plain.calls.items() if is_doubtful(call, bytecode)}
    for reference in (RECORDS, INTERPRETED):
        if doubtful:
            calls = run(command, reference, seconds, probe).calls
            doubtful = {call: samples for call, samples in doubtful.items() if call not in calls}
    tally = Tally(
        joined=plain.joined,
        lost=plain.lost,
        inexact=plain.inexact,
        calls=plain.calls.total(),
        wrong=sum(doubtful.values()),
        walks=Counter(plain.walks),
    )
    return tally, [f"{samples} {call.callee} <- {call.caller}" for call, samples in doubtful.items()]


def commands(version: int, only: Sequence[str]) -> Iterator[tuple[str, Command, str]]:
    """Name, command and class path of each program that runs on this JDK."""
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")
    java = zoo_programs.java(version)
    for name in ZOO:
        one = zoo_programs.programs()[name]
        if version >= one.jdk and (not only or name in only):

            def of_zoo(scratch: Path, options: Sequence[str], one: zoo_programs.Program = one) -> list[str]:
                words = zoo.command(one, java, 300)
                return [words[0], *options, *words[1:]]

            yield name, of_zoo, f"{zoo.classes}{os.pathsep}{zoo.modern or ''}"
    for name in PUBLISHED:
        program = published.programs()[name]
        if version in program.jdks and (not only or name in only):
            ready = published.prepare(program)

            def of_published(
                scratch: Path, options: Sequence[str], ready: published.Ready = ready
            ) -> list[str]:
                return ready.command(java, "leak", scratch, options)

            yield name, of_published, os.pathsep.join(map(str, ready.class_path))


def main() -> int:
    parser = argparse.ArgumentParser(description="Are the Java frames true?")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run")
    parser.add_argument("--jdk", nargs="*", type=int, default=[11, 17, 21, 25])
    parser.add_argument("--only", nargs="*", default=[], help="programs, by name")
    parser.add_argument("--write", action="store_true", help=f"put the table into {DOCUMENT.name}")
    options = parser.parse_args()
    script = checkout.build_script()
    flags = [*script.FLAGS, "-DCOMPARE_WALKS", str(ROOT / "probe/tests/compare_walks.c"), f"-I{ROOT}/probe"]
    probe = script.build_if_changed(ROOT / "build" / "walks" / "liboffheap.so", flags=flags)
    homes = zoo_programs.jdk_homes()
    javap = homes[max(homes)] / "bin" / "javap"
    rows, failed = [], False
    for version in options.jdk:
        total = Tally()
        ran = 0
        home = zoo_programs.java(version).parent.parent
        for name, command, class_path in commands(version, options.only):
            bytecode = Bytecode(javap, home, class_path)
            try:
                tally, wrong = compare(command, bytecode, options.seconds, probe)
            except (UserError, AssertionError) as error:
                print(f"{name} on {version}: {error}", file=sys.stderr, flush=True)
                continue
            ran += 1
            total.add(tally)
            print(document.table(("", *HEAD), [(f"{name}, JDK {version}", *tally.row())])[-1], flush=True)
            for line in wrong:
                print(f"wrong: {name} on {version}: {line}", file=sys.stderr, flush=True)
            failed |= tally.share < GOAL or bool(wrong)
        rows.append((f"{version}, {ran} programs", *total.row()))
    lines = document.table(("JDK", *HEAD), rows)
    print("\n".join(lines))
    if options.write:
        head = f"{document.machine()}; {options.seconds:.0f} s each, every block:"
        document.replace_section(DOCUMENT, "benchmarks/java_frames.py", [head, "", *lines], "")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
