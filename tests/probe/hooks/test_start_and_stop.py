"""The content of a recording at its first and last moment, and in a probe that records again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from harness.paths import PROBE
from offheap import recording
from offheap.recording.model import Recording

ALIVE, SIZE = 5000, 4099  # two_modules.c
GIVE = "#include <stdlib.h>\nvoid *give(size_t size) { return malloc(size); }\n"
TAKE = "#include <stdlib.h>\nvoid take(void *block) { free(block); }\n"
OTHER = "#include <stdlib.h>\nvoid *other(void *block) { return realloc(block, 2 * (size_t)block); }\n"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of give.so, take.so and twenty modules that are patched between them, which takes time."""
    folder = tmp_path_factory.mktemp("modules")
    for name, text in (("give", GIVE), ("take", TAKE), ("other", OTHER)):
        (folder / f"{name}.c").write_text(text)
        compile_c([folder / f"{name}.c"], folder / f"{name}.so", flags=["-shared", "-fPIC"])
    for number in range(20):
        shutil.copy(folder / "other.so", folder / f"other-{number}.so")
    return folder


@pytest.fixture(scope="module")
def two_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("start") / "two_modules"
    return compile_c([PROBE / "tests" / "two_modules.c"], output, libraries=["pthread", "dl"])


@pytest.mark.parametrize("order", [("give", "take"), ("take", "give")])
def test_one_module_allocates_and_another_frees(
    order: tuple[str, str], modules: Path, two_modules: Path, probe_library: Path, tmp_path: Path
) -> None:
    """GIVEN a constant number of live blocks THEN as many are live at the end, in both orders of patching."""
    first, last = (modules / f"{name}.so" for name in order)
    for turn in range(4):
        folder = tmp_path / str(turn)
        folder.mkdir()
        options = f"exact,dir={folder}"
        others = sorted(modules.glob("other-*.so"))
        command: list[str | Path] = [two_modules, probe_library, options, first, *others, last]
        subprocess.run(command, check=True, timeout=120)
        (file,) = folder.iterdir()
        found = recording.load(file)
        assert found.info.ended == "detached"
        # The block that the program is replacing at the end may count or not.
        assert abs(int((found.live["size"] == SIZE).sum()) - ALIVE) <= 2


@pytest.fixture(scope="module")
def restart(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    headers = [f"-I{jdk / 'include'}", f"-I{jdk / 'include' / 'linux'}"]
    output = tmp_path_factory.mktemp("restart") / "restart"
    return compile_c([PROBE / "tests" / "restart.c"], output, flags=headers, libraries=["dl"])


def recorded_anew(restart: Path, library: Path, folder: Path, *libjvm: Path) -> Recording:
    before, after = folder / "before", folder / "after"
    for one in (before, after):
        one.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": f"exact,dir={before}"}
    subprocess.run([restart, f"exact,dir={after}", *libjvm], env=environment, check=True, timeout=120)
    (file,) = after.iterdir()
    return recording.load(file)


def test_a_preloaded_probe_records_again(restart: Path, probe_library: Path, tmp_path: Path) -> None:
    """A thread notices the new start only after it has allocated 256 KiB, which the recording says."""
    found = recorded_anew(restart, probe_library, tmp_path)
    assert int((found.live["size"] == 777).sum()) == 2000
    assert int((found.live["size"] == 1000).sum()) < 1000
    assert any("up to 256 KiB" in sentence for sentence in found.info.coverage)


def test_a_recording_after_the_death_of_a_vm(
    restart: Path, jre: Callable[[int], Path], probe_library: Path, tmp_path: Path
) -> None:
    libjvm = jre(17).parent.parent / "lib" / "server" / "libjvm.so"
    found = recorded_anew(restart, probe_library, tmp_path, libjvm)
    assert int((found.live["size"] == 777).sum()) == 2000
    assert found.info.ended == "detached"
