"""OpenTelemetry's memory probes: their notes, and the events that a tracer sees."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness import needs
from harness.native.compiler import compile_c
from harness.native.elf_images import program, run
from harness.native.usdt_notes import Tracepoint, tracepoints
from harness.paths import PROBE
from offheap import recording
from offheap.probe import checkout
from offheap.proc.images.elf import SEGMENT_LOAD, SEGMENT_READ, SEGMENT_WRITE, ElfImage

QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
AARCH64_ROOT = Path("/usr/aarch64-linux-gnu")
GNU_RELRO = 0x6474E552
SOURCE = PROBE / "tests" / "otel_memory.c"
ARGUMENTS = {
    "x86_64": ["8@%rdi 8@%rsi 8@%rdx", "8@%rdi"],
    "aarch64": ["8@x0 8@x1 8@x2", "8@x0"],
}


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c([SOURCE], tmp_path_factory.mktemp("otel") / "otel_memory", flags=["-fno-builtin"])


def alloc_and_free(library: Path) -> tuple[Tracepoint, Tracepoint]:
    """The two tracepoints; fails if there are others, or one twice."""
    by_name = {point.name: point for point in tracepoints(library)}
    assert sorted(by_name) == sorted(point.name for point in tracepoints(library)) == ["alloc", "free"]
    assert {point.provider for point in by_name.values()} == {"otel_memory"}
    return by_name["alloc"], by_name["free"]


# ld.so of the emulated program preloads the library; qemu is linked statically, or ignores it.
AARCH64 = (str(QEMU), "-L", str(AARCH64_ROOT))


def traced(
    scenario: str, tracer: Path, library: Path, folder: Path, options: str, emulator: Sequence[str] = ()
) -> list[list[str]]:
    """The words of each line that the program prints."""
    alloc, free = alloc_and_free(library)
    numbers = [alloc.location, free.location, alloc.semaphore, free.semaphore]
    environment = {**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": f"{options},dir={folder}"}
    done = subprocess.run(
        [*emulator, tracer, *map(hex, numbers), scenario],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done
    return [line.split() for line in done.stdout.splitlines()]


def test_a_tracer_finds_nop_arguments_and_semaphore(probe_library: Path) -> None:
    alloc, free = alloc_and_free(probe_library)
    machine = "aarch64" if os.uname().machine == "aarch64" else "x86_64"
    assert [alloc.arguments, free.arguments] == ARGUMENTS[machine]
    assert alloc.semaphore != free.semaphore
    with ElfImage.open(probe_library) as image:
        section = image.section(".stapsdt.base")
        assert section
        assert alloc.base == free.base == section.address
        first = [image.at_address(point.location, 4) for point in (alloc, free)]
    nop = b"\x1f\x20\x03\xd5" if machine == "aarch64" else b"\x90"
    assert all(code.startswith(nop) for code in first)


def test_the_kernel_finds_the_semaphores_at_one_place(probe_library: Path) -> None:
    """One segment maps the file's pages of the semaphores, and it stays writable.

    The kernel writes to the first mapping of a semaphore's page in the file that is writable at that time.
    """
    page = 65536 if os.uname().machine == "aarch64" else 4096
    with ElfImage.open(probe_library) as image:
        loads = [row for row in image.segments if row["type"] == SEGMENT_LOAD]
        protected = [row for row in image.segments if row["type"] == GNU_RELRO]
    assert len(protected) == 1
    for point in alloc_and_free(probe_library):
        assert not any(holds(row["address"], row["memory_size"], point.semaphore) for row in protected)
        (own,) = [row for row in loads if holds(row["address"], row["file_size"], point.semaphore)]
        offset = int(own["offset"]) + point.semaphore - int(own["address"])
        mapping = [
            int(row["flags"])
            for row in loads
            if int(row["offset"]) // page
            <= offset // page
            <= int(row["offset"] + row["file_size"] - 1) // page
        ]
        assert mapping == [SEGMENT_READ | SEGMENT_WRITE]


def holds(start: int, size: int, address: int) -> bool:
    return int(start) <= address < int(start) + int(size)


def test_nothing_fires_while_nobody_traces(tracer: Path, probe_library: Path, tmp_path: Path) -> None:
    assert traced("untraced", tracer, probe_library, tmp_path, "exact") == []


def test_each_block_of_an_exact_recording(tracer: Path, probe_library: Path, tmp_path: Path) -> None:
    assert_family(traced("family", tracer, probe_library, tmp_path, "exact"))


@pytest.mark.slow
@needs.unless(
    QEMU is not None and (AARCH64_ROOT / "lib/libc.so.6").exists(),
    "qemu-aarch64 and an aarch64 C library",
    needs.apt("qemu-user-static", "libc6-arm64-cross"),
)
def test_aarch64(tmp_path: Path) -> None:
    library = checkout.build_script().build(tmp_path / "liboffheap.so", "aarch64")
    flags = ["-std=c17", "-O2", "-fno-builtin", "-fno-sanitize=undefined", "-o", str(tmp_path / "tracer")]
    checkout.build_script().compile_native([str(SOURCE), *flags], machine="aarch64")
    assert [point.arguments for point in alloc_and_free(library)] == ARGUMENTS["aarch64"]
    assert_family(traced("family", tmp_path / "tracer", library, tmp_path, "exact", AARCH64))
    assert traced("untraced", tmp_path / "tracer", library, tmp_path, "exact", AARCH64) == []


def assert_family(lines: list[list[str]]) -> None:
    """The events of malloc, realloc, a realloc that is refused, calloc and malloc(0)."""
    (block, _), (longer, _), (zeroed, _), (empty, _) = [words[1:] for words in lines if words[0] == "did"]
    assert [words for words in lines if words[0] != "did"] == [
        ["alloc", block, "100", "100"],
        ["free", block],
        ["alloc", longer, "100000", "100000"],
        ["free", longer],  # the realloc that is refused frees nothing, so the block is named again
        ["alloc", longer, "100000", "100000"],
        ["alloc", zeroed, "21", "21"],
        ["free", zeroed],
        ["free", longer],
        ["alloc", empty, "0", "0"],
        ["free", empty],
    ]


@pytest.mark.parametrize("options", ["interval=64k,seed=1", "budget=1%,seed=1"])
def test_the_weights_are_those_of_the_recording(
    options: str, tracer: Path, probe_library: Path, tmp_path: Path
) -> None:
    lines = traced("churn", tracer, probe_library, tmp_path, options)
    (truth,) = [int(words[1]) for words in lines if words[0] == "did"]
    allocated = [words for words in lines if words[0] == "alloc"]
    weights = [int(words[3]) for words in allocated]
    (live_file,) = tmp_path.glob("*.live")
    series = recording.load(live_file).series
    # The probe rounds each weight to a byte.
    assert abs(sum(weights) - series["allocated_bytes"].sum()) <= len(weights) + 1
    assert len(weights) == series["samples"].sum() > 20
    deviation = float(series["allocated_bytes_variance"].sum()) ** 0.5
    assert abs(sum(weights) - truth) < 5 * deviation
    # Each block is freed before the next is allocated.
    events = [words[:2] for words in lines if words[0] != "did"]
    assert events == [[name, words[1]] for words in allocated for name in ("alloc", "free")]


def test_a_child_fires_nothing(tracer: Path, probe_library: Path, tmp_path: Path) -> None:
    lines = traced("child", tracer, probe_library, tmp_path, "exact")
    assert lines[0] == ["did", "0", "in", "the", "child"]
    assert [words[0] for words in lines[1:]] == ["alloc", "free"]


def test_readelf_reads_the_notes(probe_library: Path) -> None:
    told = run([program("readelf"), "--notes", "--wide", probe_library])
    for point in alloc_and_free(probe_library):
        place = (
            f"Location: {point.location:#018x}, Base: {point.base:#018x}, Semaphore: {point.semaphore:#018x}"
        )
        lines = (
            f"Provider: otel_memory\n    Name: {point.name}\n    {place}\n    Arguments: {point.arguments}"
        )
        assert lines in told


def test_what_runs_for_a_block_that_is_not_sampled_has_no_tracepoint(probe_library: Path) -> None:
    """GIVEN the code of the library THEN the functions behind the sampler's decision alone refer to it."""
    code = run([program("objdump"), "--disassemble", "--no-show-raw-insn", probe_library])
    functions = dict(re.findall(r"^[0-9a-f]+ <([^>]+)>:\n((?:.+\n)*)", code, re.MULTILINE))
    assert {"malloc", "free", "realloc", "otel_memory_fire_alloc"} <= functions.keys()
    having = {
        name.partition(".")[0]  # without what a compiler adds to a part of a function, such as .cold
        for name, text in functions.items()
        if re.search(r"<otel_memory_\w+>", text)
    }
    assert having - {"record_restore", "reallocate"} == {"record_block", "record_forget"}


def test_gdb_finds_both(probe_library: Path) -> None:
    gdb = needs.program("gdb", "which reads the notes")
    told = run([gdb, "--batch", "-nx", "-ex", "info probes stap otel_memory", probe_library])
    for point in alloc_and_free(probe_library):
        assert re.search(
            rf"otel_memory +{point.name} +0x0*{point.location:x} +0x0*{point.semaphore:x} ", told
        )


SCRIPT = """
usdt:LIBRARY:otel_memory:alloc /comm == "PROGRAM"/ { @allocated = count(); @weighted = sum(arg2); }
usdt:LIBRARY:otel_memory:free /comm == "PROGRAM"/ { @freed = count(); }
interval:ms:100 { printf("attached\\n"); }
"""


def test_the_kernel_delivers_the_events(probe_library: Path, tmp_path: Path) -> None:
    """GIVEN that bpftrace traces the file WHEN a program starts THEN the kernel sets its semaphores."""
    bpftrace = needs.program("bpftrace")
    needs.root("to trace")
    name = f"otel{os.getpid()}"  # other tests' processes have the library, too
    load = compile_c([PROBE / "tests" / "known_leak.c"], tmp_path / name, flags=["-fno-builtin"])
    script = SCRIPT.replace("LIBRARY", str(probe_library)).replace("PROGRAM", name)
    with subprocess.Popen(
        [bpftrace, "-e", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tracer:
        assert tracer.stdout
        assert tracer.stderr
        while (line := tracer.stdout.readline()) != "attached\n":
            if not line:
                needs.skip(f"uprobes ({tracer.stderr.read().strip()[:200]})", needs.UPROBES)
        environment = {
            **os.environ,
            "LD_PRELOAD": str(probe_library),
            "OFFHEAP": f"interval=64k,seed=1,dir={tmp_path}",
        }
        subprocess.run([load, "8000"], env=environment, capture_output=True, timeout=60, check=True)
        tracer.send_signal(signal.SIGINT)
        told = dict(re.findall(r"^@(\w+): (\d+)$", tracer.communicate(timeout=60)[0], re.MULTILINE))
    (live_file,) = tmp_path.glob("*.live")
    series = recording.load(live_file).series
    samples = int(series["samples"].sum())
    assert int(told["allocated"]) == samples > 100
    assert abs(int(told["weighted"]) - series["allocated_bytes"].sum()) <= samples
