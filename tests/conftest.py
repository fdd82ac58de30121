"""Fixtures that several tests share: JVMs, the compiled zoo, the probe, all of them real."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import needs, public_folders
from harness.jvms import java_homes
from harness.jvms import zoo as zoo_programs
from harness.jvms.waiting_jvm import compile_waiting
from harness.native.elf_images import shared_library
from harness.paths import ROOT
from offheap.probe import checkout

pytest_plugins = [
    "harness.peers.answering_server",
    "harness.screens.report_pages",
    "harness.plugins.skip_summary",
    "harness.plugins.leftovers",
    "harness.plugins.jdk_option",
    "harness.plugins.rotation",
    "harness.plugins.examples",
]

# pyproject.toml turns warnings into errors here; this does so in every `offheap` that a test starts.
os.environ.setdefault("PYTHONWARNINGS", "error")

# A shell starts background commands with these signals ignored, and every child inherits that:
# Ctrl-C would end none of the tested commands.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


def pytest_sessionfinish() -> None:
    public_folders.remove()


def _sockets() -> set[Path]:
    return set(Path("/tmp").glob(".java_pid*"))


_sockets_before = _sockets()


@pytest.fixture(autouse=True)
def no_socket_of_an_ended_jvm() -> Iterator[None]:
    """Removes sockets of killed JVMs: they block an attach to another user's JVM that gets the same PID."""
    yield
    ended = [path for path in _sockets() - _sockets_before if not Path("/proc", path.name[9:]).exists()]
    if ended:
        # A JVM in another PID namespace may share the folder.
        listening = Path("/proc/net/unix").read_text()
        for path in ended:
            if str(path) not in listening:
                with contextlib.suppress(OSError):  # another user's
                    path.unlink()


@pytest.fixture(scope="session")
def probe_library() -> Path:
    """liboffheap.so built from the current sources."""
    library: Path | None = checkout.build_script().build_if_changed()
    assert library, "probe/ has no C file"
    return library


@pytest.fixture(scope="session")
def jres() -> dict[int, Path]:
    """The `java` of every installed JRE, by feature version."""
    found = {version: java_homes.java(version) for version in java_homes.JRE_VERSIONS}
    found = {version: path for version, path in found.items() if path.exists()}
    needs.jre(17, found)
    return found


@pytest.fixture(scope="session")
def jre(jres: dict[int, Path]) -> Callable[[int], Path]:
    """jre(17) is that version's `java`; the test is skipped if it is not installed."""

    def find(version: int) -> Path:
        needs.jre(version, version in jres)
        return jres[version]

    return find


@pytest.fixture(scope="session")
def jdk() -> Path:
    """Home of the oldest installed JDK that can compile for 11."""
    homes = {version: home for version, home in java_homes.jdk_homes().items() if version >= 11}
    if not homes:
        needs.jdk(11)
    return homes[min(homes)]


@pytest.fixture(scope="session")
def zoo(jdk: Path) -> zoo_programs.Zoo:
    """The compiled programs of examples/leaks; kept between runs until their sources change."""
    return zoo_programs.compile_zoo(ROOT / "build" / "zoo")


@pytest.fixture(scope="session")
def waiting_classes(jdk: Path) -> Path:
    """The folder of Waiting.class: a JVM for inspection from outside."""
    return compile_waiting(jdk)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="session")
def inlined(images: Path) -> Path:
    return shared_library("inlined.cpp", images / "libinlined.so")


@pytest.fixture(scope="session")
def aliases(images: Path) -> Path:
    return shared_library("aliases.c", images / "libaliases.so")


@pytest.fixture
def symbol_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Session fixtures build libraries before this fixture runs, so that zig keeps its usual cache.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "offheap" / "symcache"
