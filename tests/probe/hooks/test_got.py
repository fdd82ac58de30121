"""GOT patching on real modules: every slot and every page is restored afterwards."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from harness.paths import PROBE

PROGRAMS = PROBE / "tests"
# One source, linked in each of the ways that real libraries use.
MODULES = {
    "lazy.so": ["-Wl,-z,lazy", "-Wl,-z,norelro"],
    "now.so": ["-Wl,-z,now", "-Wl,-z,relro"],
    "later.so": ["-Wl,-z,lazy", "-Wl,-z,relro"],
    "closed.so": ["-Wl,-z,now"],
    "own.so": ["-DOWN_ALLOCATOR"],
    "slow.so": ["-DSLOW_CONSTRUCTOR", "-Wl,-z,now"],
    "sysv.so": ["-Wl,--hash-style=sysv"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("got")
    for name, flags in MODULES.items():
        shared = ["-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{name}"]
        compile_c([PROGRAMS / "got_plugin.c"], folder / name, flags=[*shared, *flags])
    sources = [
        PROGRAMS / "got_library.c",
        *(PROBE / f"{name}.c" for name in ("hooks/got", "platform/elf_image", "platform/mappings")),
    ]
    compile_c(sources, folder / "library.so", flags=["-shared", "-fPIC", "-fvisibility=hidden"])
    flags = ["-rdynamic", "-Wl,-z,lazy"]
    compile_c([PROGRAMS / "got_cases.c"], folder / "cases", flags=flags, libraries=["dl", "pthread"])
    return folder


def run(folder: Path, case: str, **environment: str) -> str:
    outcome = subprocess.run(
        [folder / "cases", case, folder],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout.strip()


@pytest.mark.parametrize(
    "case",
    ["patch-and-restore", "come-and-go", "own-allocator", "others", "in-progress", "race", "symbols"],
)
def test_case(folder: Path, case: str) -> None:
    run(folder, case)


def test_next_allocator_is_the_one_preloaded_behind(folder: Path) -> None:
    behind = f"{folder / 'library.so'} {folder / 'own.so'}"
    assert run(folder, "next", LD_PRELOAD=behind) == str(folder / "own.so")


def test_next_allocator_is_libc_without_another(folder: Path) -> None:
    assert "/libc.so" in run(folder, "next", LD_PRELOAD=str(folder / "library.so"))
