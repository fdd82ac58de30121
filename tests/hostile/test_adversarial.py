"""Programs that strain the hooks as production does: every leaked block is found, and no other."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import needs
from harness.native.compiler import compile_c
from harness.paths import PROBE
from offheap import recording
from offheap.recording.model import Recording

ODD = 4099  # bytes of the blocks that a scenario leaves behind (adversarial.c)

SCENARIOS = [
    "callers",
    "longjmp",
    "tls_destructors",
    "fork",
    "vfork",
    "exec",
    "cross_thread",
    "older",
    "realloc",
    "alignment",
    "dlopen",
    "threads",
    "signals",
    "mappings",
    "refusals",
    "small_stacks",
]


@pytest.fixture(scope="session")
def adversarial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adversarial")
    compile_c([PROBE / "tests" / "plugin.c"], folder / "libplugin.so", flags=["-shared", "-fPIC"])
    return compile_c(
        [PROBE / "tests" / "adversarial.c"],
        folder / "adversarial",
        flags=["-Wno-infinite-recursion", "-fno-builtin"],
        libraries=["pthread", "dl"],
    )


def run(command: list[str | Path], environment: dict[str, str]) -> dict[str, int]:
    """Runs a scenario; returns the figures it prints, by name."""
    outcome = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", outcome.stdout)}


def newest_recording(folder: Path) -> Recording:
    live_files = sorted(folder.glob("offheap-*.live"), key=lambda path: path.stat().st_mtime_ns)
    return recording.load(live_files[-1])


def odd_blocks(found: Recording) -> int:
    blocks = found.live[found.stack_kinds[found.live["stack"]] == 1]
    return int((blocks["size"] == ODD).sum())


def mapped_pages(found: Recording) -> int:
    mappings = found.live[found.stack_kinds[found.live["stack"]] == 2]
    return int(mappings["size"].sum()) // 4096


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_preloaded(scenario: str, adversarial: Path, probe_library: Path, tmp_path: Path) -> None:
    options = f"exact,dir={tmp_path}" + (",follow" if scenario == "exec" else "")
    truth = run([adversarial, scenario], {"LD_PRELOAD": str(probe_library), "OFFHEAP": options})
    found = newest_recording(tmp_path)
    assert odd_blocks(found) == truth["truth"]
    if "pages" in truth:
        assert mapped_pages(found) == truth["pages"]
    # One handler runs on an alternate stack, whose bounds the unwinder cannot know.
    lost = set(found.info.lost) - ({"lost_unwinds"} if scenario == "signals" else set())
    assert not lost, found.info.lost


def test_each_caller_has_its_own_stack(adversarial: Path, probe_library: Path, tmp_path: Path) -> None:
    """The same code at the same stack pointer allocates for two callers in turn."""
    options = f"exact,dir={tmp_path}"
    run([adversarial, "callers"], {"LD_PRELOAD": str(probe_library), "OFFHEAP": options})
    live = newest_recording(tmp_path).live
    first, second = (set(live["stack"][live["size"] == size].tolist()) for size in (ODD, ODD + 16))
    assert len(first) == len(second) == 1
    assert first != second


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "exec"])
def test_attached(scenario: str, adversarial: Path, probe_library: Path, tmp_path: Path) -> None:
    """The same through patched GOT slots, restored at the end: later allocations are not recorded."""
    truth = run([adversarial, scenario, probe_library, f"exact,dir={tmp_path}"], {})
    found = newest_recording(tmp_path)
    assert found.info.ended == "detached"
    assert odd_blocks(found) == truth["truth"]
    if "pages" in truth:
        assert mapped_pages(found) == truth["pages"]


@pytest.mark.parametrize("scenario", ["cross_thread", "realloc", "alignment", "threads"])
@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc", "mimalloc"])
def test_chained(
    scenario: str, allocator: str, adversarial: Path, probe_library: Path, tmp_path: Path
) -> None:
    """Another allocator, preloaded behind the probe, serves the blocks; the probe still sees every one."""
    name = needs.shared_library(allocator)
    truth = run(
        [adversarial, scenario],
        {"LD_PRELOAD": f"{probe_library} {name}", "OFFHEAP": f"exact,dir={tmp_path}"},
    )
    found = newest_recording(tmp_path)
    assert odd_blocks(found) == truth["truth"]
    assert any(allocator in Path(module.path).name for module in found.modules)
    assert any("allocator" in sentence for sentence in found.info.coverage)


def test_children_do_not_inherit_the_probe(adversarial: Path, probe_library: Path, tmp_path: Path) -> None:
    """Otherwise each process that a program starts would create its own live file."""
    run([adversarial, "vfork"], {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"dir={tmp_path}"})
    assert len(list(tmp_path.glob("*.live"))) == 1


def test_other_preloads_stay_for_children(probe_library: Path, tmp_path: Path) -> None:
    other = ctypes.util.find_library("m")
    environment = {
        "LD_PRELOAD": f"{probe_library}:{other}",
        "OFFHEAP": f"dir={tmp_path}",
        "PATH": os.environ["PATH"],
    }
    printed = subprocess.run(
        [shutil.which("sh") or "/bin/sh", "-c", "env"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout
    assert f"LD_PRELOAD={other}\n" in printed
    assert "OFFHEAP=" not in printed


def test_unknown_options_record_nothing_and_say_so(
    adversarial: Path, probe_library: Path, tmp_path: Path
) -> None:
    outcome = subprocess.run(
        [adversarial, "realloc"],
        env={**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"dir={tmp_path},sampel=3"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0
    assert outcome.stderr.count("\n") == 1
    assert "OFFHEAP" in outcome.stderr
    assert not list(tmp_path.iterdir())
