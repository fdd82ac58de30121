"""A Java walk reads only mapped memory, whatever a stack contains; each check is necessary."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness import needs
from harness.hostile.seccomp import WISHES, forbid
from harness.native.changed_sources import changed_source
from harness.native.compiler import compile_c
from harness.paths import PROBE

pytestmark = needs.on_x86_64  # Java stacks are walked on x86-64 only

TESTS = PROBE / "tests"
WALK = [
    PROBE / f"{name}.c"
    for name in (
        "jvm/java_walk",
        "jvm/java_stack",
        "jvm/scopes",
        "jvm/code_cache",
        "jvm/method_ids",
        "unwind/stack_bounds",
        "platform/system",
    )
]

# The source with the check, its text, and the text without the check.
CHECKS = {
    "a word lies below the stack": ("jvm/java_walk", "at < walk->low || ", ""),
    "a word lies above the stack": ("jvm/java_walk", " || at > walk->high - WORD", ""),
    "a frame that is too small to have a caller's fp": ("jvm/java_walk", "bytes < 2 * WORD || ", ""),
    "an entry frame leads outward": ("jvm/java_walk", "sp <= walk->fp || ", ""),
    "a frame's fp lies above its sp": ("jvm/java_walk", "walk->fp > walk->sp && ", ""),
    "no more checks than there is room for": ("jvm/java_walk", "if (*count == room) return false;", ""),
    "no more calls than were found": ("jvm/java_walk", "call < walk->calls_end", "true"),
    "no call before the first": ("jvm/java_walk", "walk.call == calls || ", ""),
    "a Method that was never read": (
        "jvm/java_walk",
        ": method_id_read(layout, method)",
        ": method_id(method)",
    ),
    "a Method whose class may be gone": ("jvm/java_walk", "*id = call ? ", "*id = before ? "),
    "a word lies above the stack, walked alone": ("jvm/java_stack", " || at > place->high - WORD", ""),
    "a word lies below the frame, walked alone": ("jvm/java_stack", "at < place->sp || ", ""),
    "an nmethod that is half made": (
        "jvm/code_cache",
        "return state >= IN_USE && state <= NOT_ENTRANT;",
        "return state >= IN_USE || state <= NOT_ENTRANT;",
    ),
    "a Method that is none, walked alone": (
        "jvm/java_stack",
        "method_id_read(layout, method)",
        "java_method_id(method)",
    ),
    "a heap that has grown, and its segments have not": (
        "jvm/code_cache",
        "segment >= *heaps[i].segments_high - (uintptr_t)heaps[i].segments",
        "false",
    ),
    "a segment that lies back before the heap": ("jvm/code_cache", "back > segment || ", ""),
    "a block that ends with its heap": ("jvm/code_cache", "pc - block >= code_offset && ", ""),
    "a name that is none": (
        "jvm/code_cache",
        "!word_readable(first) || !word_readable(last) || !system_read(name, text, sizeof text)",
        "last < first || !__builtin_memcpy(text, (const void *)name, sizeof text)",
    ),
    "a Method that is none": (
        "jvm/method_ids",
        "word_readable(field) && system_read(field, address, WORD)",
        "__builtin_memcpy(address, (const void *)field, WORD)",
    ),
}
# For kernels that forbid process_vm_readv.
SECCOMP_CHECKS = {
    "the beginning of a name": ("jvm/code_cache", "!word_readable(first)", "!first"),
    "the end of a name": ("jvm/code_cache", "!word_readable(last)", "!last"),
    "a Method and what it leads to": ("jvm/method_ids", "word_readable(field) && ", ""),
    "a Method's number": ("jvm/method_ids", "!word_readable(number_at & -(uintptr_t)WORD) || ", ""),
}


def build(folder: Path, sources: Sequence[Path] = WALK, *, sanitizer: str = "") -> Path:
    programs = [TESTS / "java_torn.c", TESTS / "fake_vm.c"]
    return compile_c([*programs, *sources], folder / "java_torn", sanitizer=sanitizer, libraries=["pthread"])


def build_without(check: tuple[str, str, str], folder: Path) -> Path:
    name, right, wrong = check
    source = f"{name}.c"
    changed = changed_source(source, folder, (right, wrong), unique=False)
    return build(folder, [changed if one == PROBE / source else one for one in WALK])


def no_copies() -> None:
    forbid([WISHES["process_vm_readv"]])


def walk(program: Path, rounds: int, seed: int, *, copies: bool = True) -> subprocess.CompletedProcess[str]:
    command = [str(program), str(rounds), str(seed)]
    before = None if copies else no_copies
    # ASan's own handler would turn a fault into an exit code.
    environment = {**os.environ, "ASAN_OPTIONS": "handle_segv=1:detect_leaks=0"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, preexec_fn=before, env=environment
    )


def judge(outcome: subprocess.CompletedProcess[str], rounds: int) -> None:
    assert outcome.returncode == 0, (outcome.returncode, outcome.stdout, outcome.stderr)
    words = outcome.stdout.split()
    told = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    # A quarter is sound; a few of them need more checks than there is room for.
    assert told["understood"] > rounds // 5
    assert told["spoiled"] > rounds // 30
    assert told["refused"] > rounds // 3
    assert told["torn-understood"] > rounds // 30  # the walk reads few of the torn words


# The seed's bits choose whether there are native nmethods, and how an nmethod marks its deoptimization.
@pytest.mark.parametrize(
    ("sanitizer", "seed"), [*(("", seed) for seed in range(4)), *(("address,undefined", n) for n in (1, 2))]
)
def test_a_torn_java_stack_is_harmless(sanitizer: str, seed: int, tmp_path: Path) -> None:
    """GIVEN torn stacks, torn parts of a VM WHEN walked THEN no fault, and sound stacks are understood."""
    rounds = 50_000 if sanitizer else 200_000
    judge(walk(build(tmp_path, sanitizer=sanitizer), rounds, seed), rounds)


def test_a_torn_java_stack_is_harmless_where_the_kernel_makes_no_copies(tmp_path: Path) -> None:
    judge(walk(build(tmp_path), 200_000, 1, copies=False), 200_000)


def assert_ends(outcome: subprocess.CompletedProcess[str]) -> None:
    # SIGALRM: an endless walk.  Too many checks overwrite others before the program notices.
    died = outcome.returncode in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGALRM)
    noticed = any(told in outcome.stdout for told in ("more checks than there is room for", "does not hold"))
    assert died or noticed, outcome.stdout


@pytest.mark.parametrize("check", CHECKS)
def test_without_a_check_a_torn_java_stack_ends_the_program(check: str, tmp_path: Path) -> None:
    assert_ends(walk(build_without(CHECKS[check], tmp_path), 2_000_000, 1))


@pytest.mark.parametrize("check", SECCOMP_CHECKS)
def test_without_a_check_and_without_copies(check: str, tmp_path: Path) -> None:
    program = build_without(SECCOMP_CHECKS[check], tmp_path)
    assert_ends(walk(program, 2_000_000, 1, copies=False))
