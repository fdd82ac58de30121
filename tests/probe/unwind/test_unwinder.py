"""The unwinder against glibc's backtrace(), under fuzzing, under races, and on aarch64 under QEMU."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from harness import needs
from harness.hostile.seccomp import forbid
from harness.native.compiler import compile_c
from harness.native.unwinder_programs import LIBRARY_FLAGS, PROGRAM_FLAGS, PROGRAMS, UNWINDER, Programs, build
from harness.paths import PROBE
from offheap.probe import checkout

# Simulates a glibc older than 2.35, without _dl_find_object: the unwinder uses dl_iterate_phdr.
OLD_GLIBC = [PROGRAMS / "unwind_old_glibc.c"]
PROCESS_VM_READV = 310

CASES = [
    "recursion",
    "qsort",
    "realigned",
    "large-frame",
    "signal",
    "threads",
    "alternate-stack",
    "truncated",
    "generated-code",
]
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
AARCH64_ROOT = Path("/usr/aarch64-linux-gnu")


@pytest.fixture(scope="module", params=["_dl_find_object", "dl_iterate_phdr"])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    old = request.param == "dl_iterate_phdr"
    return build(tmp_path_factory.mktemp(request.param), OLD_GLIBC if old else [])


def compared(output: str) -> int:
    word, count, _, rootless = output.split()
    assert (word, rootless) == ("compared", "0")
    return int(count)


@pytest.mark.parametrize("case", CASES)
def test_frames_are_those_of_backtrace(programs: Programs, case: str) -> None:
    assert compared(programs.run("cases", case)) >= 1


@needs.on_x86_64  # the trap flag
def test_after_every_single_instruction(programs: Programs) -> None:
    count, rootless = map(int, programs.run("cases", "single-step").split()[1::2])
    assert count > 3000
    # lld describes no PLT stub, so that no unwinder (libgcc included) finds a caller from inside one.
    assert rootless < count / 20


def test_reloaded_modules(programs: Programs) -> None:
    plugin = programs.folder / "unwind_plugin.so"
    assert compared(programs.run("cases", "reload", str(plugin))) == 101


@needs.on_x86_64  # system call numbers
def test_where_the_kernel_makes_no_copies(programs: Programs) -> None:
    """The unwinder reads rules in place, and still finds every stack."""
    plugin = programs.folder / "unwind_plugin.so"
    found = programs.run("cases", "reload", str(plugin), before=lambda: forbid([PROCESS_VM_READV]))
    assert compared(found) == 101


def torn(programs: Programs, *arguments: str) -> dict[str, int]:
    words = programs.run("torn", *arguments).split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def test_a_torn_stack_is_harmless(programs: Programs) -> None:
    """A read outside the stack, or at the address of a false rule, would end the program."""
    for seed in range(2):
        told = torn(programs, "300000", str(seed))
        assert told["frames"] > 150_000
        assert min(told[end] for end in ("root", "outside", "lost")) > 1000


def test_a_torn_stack_that_leads_into_a_library_on_its_way_out(programs: Programs) -> None:
    """A read of rules that another thread unmaps would end the program, mostly at once."""
    told = torn(programs, "60000", "1", str(programs.folder / "unwind_plugin.so"))
    assert told["reloads"] > 20
    assert told["frames"] > 10_000
    assert min(told[end] for end in ("root", "outside", "lost")) > 50


def build_id(path: Path) -> str:
    """The GNU build-id of a 64-bit little-endian ELF file, as hexadecimal digits ("" without one)."""
    image = path.read_bytes()
    (offset,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    for i in range(count):
        kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", image, offset + i * size)
        end = at + length
        while kind == 4 and at < end:
            name, content, note = struct.unpack_from("<III", image, at)
            at += 12 + (name + 3 & ~3)
            if note == 3:
                return image[at : at + content].hex()
            at += content + 3 & ~3
    return ""


def test_modules_have_path_and_build_id(programs: Programs) -> None:
    rows = [line.split(" ") for line in programs.run("cases", "modules").splitlines()]
    paths = [row[4] for row in rows]
    assert len(set(paths)) == len(paths)
    assert str(programs.folder / "cases") in paths
    assert "[vdso]" in paths
    assert any("/libc.so" in path for path in paths)
    files = [row for row in rows if row[4] != "[vdso]"]
    assert len(files) >= 4
    for start, end, bias, identity, path in files:
        assert path.startswith("/")
        assert identity == build_id(Path(path))
        assert int(bias, 16) <= int(start, 16) < int(end, 16)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_eh_frame_is_harmless(
    seed: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = tmp_path_factory.getbasetemp() / "unwind_fuzz"
    if not program.exists():
        sources = [PROGRAMS / "unwind_fuzz.c", PROBE / "unwind/cfi.c", PROBE / "unwind/cfi_step.c"]
        compile_c(sources, program, sanitizer="address,undefined")
    outcome = subprocess.run([program, "300000", str(seed)], capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    _, sections, _, rules, _, callers, _, gone = outcome.stdout.split()
    assert int(sections) >= 3
    assert int(rules) > 100_000  # such slight damage leaves many entries readable
    assert int(callers) > 10_000
    assert int(gone) > 10_000


def test_threads_and_reloads_at_once(tmp_path: Path) -> None:
    library = compile_c(UNWINDER, tmp_path / "libcapture.so", sanitizer="thread", flags=LIBRARY_FLAGS)
    race = [PROGRAMS / "unwind_race.c", library]
    program = compile_c(race, tmp_path / "race", sanitizer="thread", flags=["-Wl,-rpath,$ORIGIN"])
    plugin = compile_c(
        [PROGRAMS / "unwind_plugin.c"], tmp_path / "unwind_plugin.so", flags=["-shared", "-fPIC"]
    )
    # gcc 12's TSan does not start with more random address bits in the kernel than it knows.
    command = ["setarch", "-R", str(program), "2", str(plugin)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "WARNING: ThreadSanitizer" not in outcome.stderr, outcome.stderr
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@needs.unless(
    QEMU is not None and (AARCH64_ROOT / "lib/libgcc_s.so.1").exists(),
    "qemu-aarch64 and an aarch64 C library",
    needs.apt("qemu-user-static", "libc6-arm64-cross", "libgcc-s1-arm64-cross"),
)
def test_aarch64(tmp_path: Path) -> None:
    compile_native = checkout.build_script().compile_native
    common = ["-std=c17", "-O2", f"-I{PROGRAMS.parent}", "-fno-sanitize=undefined"]
    library = tmp_path / "libcapture.so"
    flags = [*common, *LIBRARY_FLAGS, "-Wl,-soname,libcapture.so", "-o", str(library)]
    compile_native([*map(str, UNWINDER), *flags], machine="aarch64")
    flags = [*common, *PROGRAM_FLAGS, "-o", str(tmp_path / "cases"), "-ldl", "-lpthread"]
    compile_native([str(PROGRAMS / "unwind_cases.c"), str(library), *flags], machine="aarch64")
    for case in CASES:
        command = [str(QEMU), "-L", str(AARCH64_ROOT), str(tmp_path / "cases"), case]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert outcome.returncode == 0, f"{case}: {outcome.stdout}{outcome.stderr}"
        assert compared(outcome.stdout) >= 1
