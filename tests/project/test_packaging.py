"""The wheel, the sdist, the editable rebuild: real builds in a copy of the tree."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from harness import needs
from harness.paths import ROOT
from offheap.probe import checkout

SCRIPT = checkout.build_script()
MANYLINUX2014_GLIBC = (2, 17)


def copy_tree(target: Path) -> Path:
    """The files that git would commit, without build results of this machine."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def pip(*arguments: str | Path, python: str = sys.executable, **environment: str) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "default", **environment},  # pip's warnings are not offheap's
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def glibc_versions(library: Path) -> set[tuple[int, int]]:
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    return {(int(major), int(minor)) for major, minor in found}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        needs.skip("a git checkout, which lists what belongs to the project", "git clone")
    return copy_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, tree)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_has_the_tag_and_the_parts(wheel: Path) -> None:
    assert re.fullmatch(
        r"offheap-[\d.]+-py3-none-manylinux2014_(x86_64|aarch64)\.manylinux_2_17_\1\.whl", wheel.name
    )
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert names.count("offheap/_lib/liboffheap.so") == 1
    assert "offheap/report/_web/report.html" in names
    assert "offheap/demo/com/example/shop/Shop.java" in names
    assert "offheap/py.typed" in names
    roots = {name.split("/")[0] for name in names}
    assert roots == {"offheap", next(root for root in roots if root.endswith(".dist-info"))}


def test_installed_wheel_starts(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    # The dependencies come from this interpreter: the test covers the wheel, not an index.
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    pip("install", "--no-deps", "--target", site, wheel)
    dependencies = Path(pytest.__file__).parent.parent
    outcome = subprocess.run(
        [python, "-m", "offheap", "--version"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(dependencies)])},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert wheel.name.split("-")[1] in outcome.stdout


def test_probe_loads_into_any_program_and_needs_only_an_old_glibc(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        library = Path(archive.extract("offheap/_lib/liboffheap.so", tmp_path))
    assert max(glibc_versions(library)) <= MANYLINUX2014_GLIBC
    options = f"dir={tmp_path}"
    outcome = subprocess.run(
        ["/bin/ls", "/"],
        env={**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": options},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert len(list(tmp_path.glob("offheap-*.live"))) == 1


def test_cross_build_for_the_other_machine(tmp_path: Path) -> None:
    elf_machines = {"x86_64": 62, "aarch64": 183}
    (other,) = set(elf_machines) - {platform.machine()}
    library = SCRIPT.build(tmp_path / "liboffheap.so", other)
    header = library.read_bytes()[:20]
    assert header[:4] == b"\x7fELF"
    assert int.from_bytes(header[18:20], "little") == elf_machines[other]
    assert max(glibc_versions(library)) <= MANYLINUX2014_GLIBC


def test_sdist_builds_without_a_compiler_and_holds_the_sources(tree: Path, tmp_path: Path) -> None:
    program = (
        "import sys, hatchling.build; sys.modules['ziglang'] = None\n"
        f"print(hatchling.build.build_sdist({str(tmp_path)!r}))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tree, check=True, capture_output=True, timeout=120)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"hatch_build.py", "probe/build.py", "probe/recording.h", "LICENSE", "README.md"} <= names
    assert {"web/build.py", "web/package.json", "web/package-lock.json"} <= names
    assert "examples/leaks/zoo.json" in names
    assert not [name for name in names if "node_modules" in name or name.endswith(".so")]


def test_changed_source_rebuilds_the_probe_and_unchanged_does_not(tree: Path, tmp_path: Path) -> None:
    checkout_tree = tmp_path / "checkout"
    shutil.copytree(tree / "probe", checkout_tree / "probe")
    shutil.copytree(tree / "src", checkout_tree / "src")
    # The same record as pip's for an editable install (PEP 610); no other checkout is built.
    record = checkout_tree / "src" / "offheap-0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: offheap\nVersion: 0\n")
    origin = {"url": checkout_tree.as_uri(), "dir_info": {"editable": True}}
    (record / "direct_url.json").write_text(json.dumps(origin))
    program = "from offheap.probe import checkout; checkout.refresh_probe()"
    library = checkout_tree / "src" / "offheap" / "_lib" / "liboffheap.so"

    def refresh() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(checkout_tree / "src")}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300
        )

    first = refresh()
    assert first.returncode == 0, first.stderr
    inode = library.stat().st_ino
    assert refresh().returncode == 0
    assert library.stat().st_ino == inode

    extra = checkout_tree / "probe" / "extra.c"
    extra.write_text('__attribute__((visibility("default"))) const char extra_word[] = "a new source";\n')
    assert refresh().returncode == 0
    assert b"a new source" in library.read_bytes()

    extra.write_text("this is no C\n")
    broken = refresh()
    assert broken.returncode != 0
    assert "extra.c" in broken.stderr
    assert b"a new source" in library.read_bytes()


def test_compiler_works_where_no_cache_folder_can_be_made(tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int empty;\n")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import build\n"
        "build.compile_native(['-c', sys.argv[2], '-o', sys.argv[3]])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZIG_")}
    # /dev/null is not a folder, not even for root.
    environment["XDG_CACHE_HOME"] = "/dev/null"
    outcome = subprocess.run(
        [sys.executable, "-c", program, ROOT / "probe", source, tmp_path / "empty.o"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "empty.o").read_bytes()[:4] == b"\x7fELF"


def test_build_script_says_in_one_line_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SCRIPT.BuildError, match="x86_64 and aarch64, not on riscv64"):
        SCRIPT.build(tmp_path / "liboffheap.so", "riscv64")
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    outcome = subprocess.run(
        [tmp_path / "bare/bin/python", ROOT / "probe/build.py", "--force", "-o", tmp_path / "liboffheap.so"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 1
    assert "pip install ziglang" in outcome.stderr
