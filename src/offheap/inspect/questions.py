"""The questions that an inspection asks the JVM, and the JVM's answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from offheap.errors import UserError
from offheap.jvm.listener import target
from offheap.jvm.listener.attach import AttachedVM, AttachError
from offheap.jvm.listener.attach_listener import TargetGone
from offheap.jvm.texts import nmt, system_map, vm_info
from offheap.proc.status import Status

# Each takes a few milliseconds at most, no safepoint, and leaves nothing behind.  VM.metaspace
# without `basic` would stop the JVM; NMT's detail and VM.info read libjvm's symbols into the JVM
# and keep them, some 5 MiB, except VM.info on JDK 11.
_CHEAP = ("GC.heap_info", "Compiler.codecache", "VM.metaspace basic")
_SUMMARY, _DETAIL = "VM.native_memory summary scale=B", "VM.native_memory detail scale=B"
_REPLY_SECONDS = 10
_DETAIL_SECONDS = 60  # thousands of lines, each in its own write
# HotSpot's threads that answer offheap, with names as the kernel, or JDK 26, cuts them: the signal threads
# start the listener.  Pages that these threads bring into memory are offheap's cost; the growth of RSS would
# also include the program's own.
ANSWERING_THREADS = ("Attach Listener", "Signal Dispatch", "Signal ..atcher")


@dataclass
class Answers:
    """The JVM's answers, and the missing ones."""

    places: list[vm_info.JVMRange] = field(default_factory=list)
    metaspace: vm_info.MetaspaceUsage | None = None
    report: nmt.Report | None = None
    tags: list[system_map.TaggedMapping] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def ask(process: Status, detail: bool) -> Answers:
    """The JVM's answers; a refusal is only a sentence in `missing`, because /proc alone shows much."""
    answers = Answers()
    try:
        performance = target.check(process.pid).performance
    except TargetGone:
        raise
    except UserError as error:
        answers.missing.append(f"the JVM was not asked: {error.what}")
        return answers
    version = _feature_version(performance.java_version if performance else "")
    vm = AttachedVM(process.pid, reply_seconds=_REPLY_SECONDS)
    commands = [*_CHEAP, *(("VM.info",) if detail or version == 11 else ())]
    text = ""
    try:
        for name in commands:
            text += f"{_jcmd(vm, name, answers)}\n"
        answers.report = nmt.parse(_jcmd(vm, _SUMMARY, answers))
        if answers.report and detail and version < 21:
            slow = AttachedVM(process.pid, reply_seconds=_DETAIL_SECONDS)
            # NMT may track only sums.
            answers.report = nmt.parse(_jcmd(slow, _DETAIL, answers)) or answers.report
        if answers.report and version >= 21:  # without NMT the JVM tags nothing
            answers.tags = system_map.parse(_jcmd(vm, "System.map", answers))
    except TargetGone:
        raise
    except UserError as error:  # the JVM's earlier answers count
        answers.missing.append(f"the JVM did not answer: {error.what}")
    else:
        if answers.report is None:
            answers.sources = [name for name in answers.sources if name != "VM.native_memory"]
            answers.missing.append(
                "memory of Unsafe and FFM, and the JVM's own malloc, are not told from other malloc: "
                "Native Memory Tracking is off (-XX:NativeMemoryTracking=summary at the start)"
            )
    answers.places = vm_info.places(text)
    answers.metaspace = vm_info.metaspace_usage(text)
    return answers


def _jcmd(vm: AttachedVM, name: str, answers: Answers) -> str:
    try:
        text = vm.jcmd(name)
    except AttachError:
        return ""  # this JVM does not have the command
    answers.sources.append(" ".join(name.split()[:1]))
    return text


def _feature_version(java_version: str) -> int:
    first = java_version.split(".")[0].split("-")[0].split("+")[0]
    return int(first) if first.isdecimal() else 0
