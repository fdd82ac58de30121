"""The Java frames of real JVMs compared with the bytecode that made the calls.

Each program runs under a build of the probe that, at every walk, asks AsyncGetCallTrace and the probe's own
walk and times both (probe/tests/compare_walks.c).  Every block is recorded.

Each call that a stack states (callee and caller) is looked up in the caller's bytecode: does the caller
call a method of that name, do what the VM's function is for, or is it the native method of the function? If
bytecode denies the call or cannot tell (of a foreign function, for example), the program runs again: with
-XX:+DebugNonSafepoints, where each call has a debug record of its own, then interpreted, where each frame
names itself (this only if bytecode denies a call). A call that bytecode denies and neither run sees is
wrong. A call of which bytecode cannot tell, and which no run sees again, is counted apart.

Planted frames show how strict the check is: another method of the run replaces the caller of each function,
and the two calls that such a stack states are judged in the same way.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.evaluation import published_programs
from harness.jvms import java_homes
from harness.jvms import zoo as zoo_programs
from harness.paths import ROOT
from offheap import recording
from offheap.probe.live_files import search
from offheap.recording.capture.recorder import record
from offheap.recording.model import Frame, Kind, Recording

ZOO = ("inflaters", "direct-buffers", "thread-map", "ffm")
PUBLISHED = (
    *("zstd-orders", "jna-labels", "jnr-rules", "sqlite-ledger", "rocksdb-carts", "netty-audit"),
    *(
        "jetty-exports",
        "tcnative-upstreams",
        "conscrypt-peers",
        "agent-orders",
        "lucene-search",
        "spark-shop",
    ),
)
GOAL = 0.995  # of the samples of Java threads have Java frames
RECORDS = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints")
INTERPRETED = ("-Xint",)
# probe/jvm/compare_walks.h, at the end of a live file's header.
COMPARED = ("walks", "async", "own", "both", "same", "corrected", "cut", "async_ns", "own_ns")
HEADER_BYTES = 4096
CLASSES_AT_ONCE = 400
LINKERS = frozenset({".linkToStatic", ".linkToSpecial", ".linkToVirtual", ".linkToInterface", ".invokeBasic"})
HANDLES = ("java.lang.invoke.", "jdk.internal.foreign.")  # the code behind method handles

# -> the command line of one run in a scratch folder, with options more
Command = Callable[[Path, Sequence[str]], list[str]]
Methods = dict[
    str, set[str]
]  # method -> opcodes, names of what it calls with a dot before each, and "native"

# The bytecode that leads to a function of the VM, by a part of its name; any bytecode leads to others.
INVOKE = frozenset({"invokevirtual", "invokespecial", "invokestatic", "invokeinterface", "invokedynamic"})
ARRAY = frozenset({"newarray", "anewarray", "multianewarray"})
FIELD = frozenset({"getfield", "putfield", "getstatic", "putstatic"})
CONSTANT = frozenset({"ldc", "ldc_w", "ldc2_w"})
ENTRIES = {
    "new_instance": frozenset({"new"}),
    "_new(": frozenset({"new"}),
    "new_array": ARRAY,
    "new_type_array": ARRAY,
    "new_object_array": ARRAY,
    "newarray": ARRAY,
    "multianewarray": ARRAY,
    "resolve_virtual": INVOKE,
    "resolve_static": INVOKE,
    "resolve_opt_virtual": INVOKE,
    "resolve_from_cache": INVOKE | FIELD,
    "ldc": CONSTANT,
    "quicken_io_cc": frozenset({"checkcast", "instanceof", "aastore"}),
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
    early: int  # before the VM is complete, when no Java stack is walked: neither joined nor lost
    inexact: int
    walks: dict[str, int]
    calls: Counter[Call]  # samples


@dataclass
class Tally:
    """A program on a JDK, or several of them."""

    joined: int = 0
    lost: int = 0
    early: int = 0  # see Seen
    inexact: int = 0
    calls: int = 0  # samples of calls that are stated as fact
    wrong: int = 0  # of these
    open: int = 0  # of these: nothing tells whether they were made
    walks: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.joined += other.joined
        self.lost += other.lost
        self.early += other.early
        self.inexact += other.inexact
        self.calls += other.calls
        self.wrong += other.wrong
        self.open += other.open
        self.walks.update(other.walks)

    @property
    def share(self) -> float:
        return self.joined / max(1, self.joined + self.lost)

    def row(self) -> tuple[str, ...]:
        walks, both = self.walks, max(1, self.walks["both"])
        return (
            f"{self.joined + self.lost:,}",
            f"{100 * self.share:.2f} %",
            f"{self.early:,}",
            f"{100 * self.inexact / max(1, self.joined):.2f} %",
            f"{self.wrong} of {self.calls:,}",
            f"{self.open:,}",
            f"{walks['walks']:,}",
            f"{100 * walks['async'] / max(1, walks['walks']):.2f} %",
            f"{100 * walks['own'] / max(1, walks['walks']):.2f} %",
            f"{100 * walks['same'] / both:.2f} %",
            f"{100 * (walks['corrected'] + walks['cut']) / both:.2f} %",
            f"{walks['async_ns'] // max(1, walks['walks']):,}",
            f"{walks['own_ns'] // max(1, walks['walks']):,}",
        )


HEAD = (
    *(
        "samples of Java threads",
        "with Java frames",
        "earlier ones",
        "of these inexact",
        "wrong calls",
        "calls not told",
    ),
    "walks",
    *("AsyncGetCallTrace has frames", "own walk has frames", "the same", "the same once put right"),
    *("ns AsyncGetCallTrace", "ns own walk"),
)


def calls_of(found: Recording) -> Counter[Call]:
    """Who called whom, by samples."""
    latest = {int(row["stack"]): int(row["samples"]) for row in found.series}
    counted: Counter[Call] = Counter()
    for number, samples in latest.items():
        for call in stated(found.stack(number)) if samples else ():
            counted[call] += samples
    return counted


def stated(stack: Sequence[Frame]) -> Iterator[Call]:
    """The calls that a stack states, from the native function that Java called to the outermost frame.

    A gap and the frames beside it state nothing.  Handles have the same names in every stack, so a foreign
    function is also stated as called by the caller of the handle.
    """
    first = next((i for i, frame in enumerate(stack) if frame.kind == "java"), None)
    if first is None:
        return
    near = stack[max(0, first - 1) :]
    for callee, caller in itertools.pairwise(near):
        if caller.kind == "java" and callee.kind != "unknown":
            yield Call(_name(callee), _name(caller), callee.kind)
    foreign = near[0].kind == "native" and not near[0].name.startswith("Java_")
    if foreign and near[1].name.startswith(HANDLES):
        beyond = next((frame for frame in near[1:] if not frame.name.startswith(HANDLES)), near[0])
        if beyond.kind == "java":
            yield Call(_name(near[0]), _name(beyond), near[0].kind)


def without_java(found: Recording) -> int:
    """Samples whose stack neither reaches the thread's start nor has a Java frame."""
    latest = {int(row["stack"]): int(row["samples"]) for row in found.series}
    kinds = {number: [frame.kind for frame in found.stack(number)] for number in latest}
    return sum(
        latest[number] for number, its in kinds.items() if "java" not in its and its[-1:] == ["unknown"]
    )


def _name(frame: Frame) -> str:
    """The name without what differs from run to run: numbers of generated classes and extracted files."""
    if frame.kind == "java":
        return re.sub(r"(Accessor|\$Proxy)\d+", r"\1", frame.name)
    file, plus, offset = frame.name.rpartition("+0x")
    if plus:
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{5,}", "", file) + plus + offset
    return re.sub(r"\(.*", "(", frame.name)


def run(command: Command, options: Sequence[str], seconds: float, probe: Path) -> Seen:
    with tempfile.TemporaryDirectory(prefix="offheap-java-frames-") as name:
        folder = Path(name)
        scratch = folder / "scratch"
        scratch.mkdir()
        variables = {"LD_PRELOAD": str(probe), "OFFHEAP": f"exact,dir={folder}"}
        with zoo_programs.Running(command(scratch, options), variables) as running:
            (path,) = [one.path for one in search.inside(folder) if one.pid == running.pid]
            with path.open("rb", buffering=0) as file:
                record(path, folder / "a.offheap", every=2.0, duration=seconds)
                running.exit()
                header = os.pread(file.fileno(), HEADER_BYTES, 0)
        found = recording.load(folder / "a.offheap")
    counts = struct.unpack_from(f"<{len(COMPARED)}Q", header, HEADER_BYTES - 8 * len(COMPARED))
    return Seen(
        joined=found.info.joined,
        lost=(lost := found.info.lost.get("lost_java", 0)),
        early=max(0, without_java(found) - lost),
        inexact=found.info.lost.get("java_inexact", 0),
        walks=dict(zip(COMPARED, counts, strict=True)),
        calls=calls_of(found),
    )


def run_once(
    command: Command, seconds: float, probe: Path, keep: Path | None, options: Sequence[str]
) -> Seen:
    """A run, or the one kept in `keep`."""
    words = "".join(options)
    path = keep.with_name(f"{keep.name}{words.replace(':', '')}.json") if keep else None
    if path and path.exists():
        row = json.loads(path.read_text())
        row["calls"] = Counter({Call(*words): samples for *words, samples in row["calls"]})
        return Seen(**row)
    seen = run(command, options, seconds, probe)
    if path:
        calls = [(call.callee, call.caller, call.kind, samples) for call, samples in seen.calls.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**vars(seen), "calls": calls}))
    return seen


class Bytecode:
    """What the methods of a program call, as javap tells."""

    def __init__(self, javap: Path, home: Path, class_path: str) -> None:
        self._command = [str(javap), "-p", "-c", "--system", str(home), "-cp", class_path]
        self._classes: dict[str, Methods] = {}

    def read(self, classes: Iterable[str]) -> None:
        """Reads these classes, many at once: each start of javap takes a second."""
        wanted = sorted(set(classes) - self._classes.keys())
        for at in range(0, len(wanted), CLASSES_AT_ONCE):
            some = wanted[at : at + CLASSES_AT_ONCE]
            outcome = subprocess.run([*self._command, *some], capture_output=True, text=True, timeout=300)
            # Hidden classes, and those of arrays, are not found.
            self._classes.update({**{name: {} for name in some}, **parse(outcome.stdout)})

    def code(self, method: str) -> set[str] | None:
        """None if there is no class file, as for a hidden class."""
        of, _, name = method.rpartition(".")
        its = self._classes.get(of)
        return its.get(name, set()) if its else None


def parse(text: str) -> dict[str, Methods]:
    """What javap -c prints of classes."""
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
            current.add("." + match[1])
        if match := re.match(r"\s+\d+: (\w+)", line):
            current.add(match[1])
    return classes


def tells(call: Call, bytecode: Bytecode) -> bool | None:
    """Whether the caller's code makes the call; None: the code cannot tell."""
    code = bytecode.code(call.caller)
    if call.kind == "java":
        return _tells_of_java(call, code)
    if call.callee.startswith("Java_"):
        return jni_method(call.callee) == call.caller.replace("$", ".")
    if code is None:
        return None
    if call.kind == "native":  # only the library knows which of its functions a native method is
        return None if "native" in code else False
    if call.callee.startswith("Unsafe_"):
        return (
            "native" in code
            and call.callee.rpartition("_")[2].lower() == call.caller.rpartition(".")[2].lower()
        )
    wanted = next((words for name, words in ENTRIES.items() if name in call.callee), None)
    return bool(wanted & code) if wanted else None


def _tells_of_java(call: Call, code: set[str] | None) -> bool | None:
    if code is None:
        return None
    name = call.callee.rpartition(".")[2]
    if "." + name in code:
        return True
    # The first use of a class has it loaded and initialised; the VM links handles to code of its own.
    by_the_vm = name in ("<clinit>", "loadClass", "loadClassInternal")
    linked = call.callee.startswith("java.lang.invoke.") or "$$Lambda" in call.callee or LINKERS & code
    if call.callee == "java.lang.ref.Finalizer.register" and call.caller == "java.lang.Object.<init>":
        return True
    return None if by_the_vm or linked or "native" in code else False


def jni_method(symbol: str) -> str:
    """`Java_java_util_zip_Inflater_init` -> `java.util.zip.Inflater.init`."""
    words = re.sub(r"__.*", "", symbol.removeprefix("Java_"))
    words = re.sub(r"_0([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), words)
    return words.replace("_1", "\0").replace("_", ".").replace("\0", "_").replace("$", ".")


@dataclass
class Judged:
    """The calls of a plain run that no reference run has."""

    wrong: dict[Call, int] = field(default_factory=dict)
    open: dict[Call, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        return [
            f"{what}: {samples} {call.callee} <- {call.caller}"
            for what, calls in (("wrong", self.wrong), ("not told", self.open))
            for call, samples in sorted(calls.items(), key=lambda item: -item[1])
        ]


def judge(calls: Counter[Call], references: Iterable[Callable[[], Seen]], bytecode: Bytecode) -> Judged:
    """The first of `references` runs for calls that bytecode does not confirm, the next for denied ones."""
    bytecode.read(call.caller.rpartition(".")[0] for call in calls)
    told = {call: tells(call, bytecode) for call in calls}
    left = {call: samples for call, samples in calls.items() if not told[call]}
    for reference in references:
        if left:
            seen = reference().calls
            left = {call: samples for call, samples in left.items() if call not in seen}
        if not any(told[call] is False for call in left):
            break
    return Judged(
        wrong={call: samples for call, samples in left.items() if told[call] is False},
        open={call: samples for call, samples in left.items() if told[call] is None},
    )


def planted(seen: Seen) -> Iterator[tuple[int, tuple[Call, ...]]]:
    """The calls stated by stacks with a false innermost Java frame, with their samples."""
    chance = random.Random(0)
    callers = sorted({call.caller for call in seen.calls})
    outer = {call.callee: call.caller for call in seen.calls if call.kind == "java"}
    for call, samples in seen.calls.items():
        false = chance.choice(callers)
        if call.kind != "java" and call.caller in outer and false != call.caller:
            stated = (Call(call.callee, false, call.kind), Call(false, outer[call.caller], "java"))
            if not all(one in seen.calls for one in stated):
                yield samples, stated


def compare(runs: Callable[[Sequence[str]], Seen], bytecode: Bytecode) -> tuple[Tally, Tally, list[str]]:
    """The figures of one program, those of frames planted into it, and the calls found wrong."""
    plain = runs(())
    references = [functools.cache(functools.partial(runs, options)) for options in (RECORDS, INTERPRETED)]
    judged = judge(plain.calls, references, bytecode)
    tally = Tally(
        joined=plain.joined,
        lost=plain.lost,
        early=plain.early,
        inexact=plain.inexact,
        calls=plain.calls.total(),
        wrong=sum(judged.wrong.values()),
        open=sum(judged.open.values()),
        walks=Counter(plain.walks),
    )
    plants = Tally()
    false = list(planted(plain))
    found = judge(Counter(call for _, stated in false for call in stated), references[:1], bytecode)
    for samples, stated in false:
        plants.calls += samples
        if any(call in found.wrong for call in stated):
            plants.wrong += samples
        elif any(call in found.open for call in stated):
            plants.open += samples
    return tally, plants, judged.lines()


def commands(version: int, only: Sequence[str]) -> Iterator[tuple[str, Command, str]]:
    """Name, command and class path of each program that runs on this JDK."""
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")
    java = java_homes.java(version)
    for name in ZOO:
        one = zoo_programs.programs()[name]
        if version >= one.jdk and (not only or name in only):

            def of_zoo(scratch: Path, options: Sequence[str], one: zoo_programs.Program = one) -> list[str]:
                words = zoo.command(one, java, 300)
                return [words[0], *options, *words[1:]]

            yield name, of_zoo, f"{zoo.classes}{os.pathsep}{zoo.modern or ''}"
    for name in PUBLISHED:
        program = published_programs.programs()[name]
        if version in program.jdks and (not only or name in only):
            ready = published_programs.prepare(program)

            def of_published(
                scratch: Path, options: Sequence[str], ready: published_programs.Ready = ready
            ) -> list[str]:
                return ready.command(java, "leak", scratch, options)

            yield name, of_published, os.pathsep.join(map(str, ready.class_path))
