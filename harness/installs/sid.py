"""A Debian of its own in .sid: the newest CPython, JDKs and glibc that Debian has.

`python -m harness.installs.sid create` makes it, as root, by debootstrap: a minute or two, 1.2 GB. Commands
run in it by chroot, in namespaces of their own: mounts and processes end with the command, whatever ends it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".sid"
JDKS = (26, 27)
OLD_JDK = 8  # no JRE of it is at PyPI; what needs one runs inside
# One of the JDKs has a compiler and the headers of JNI.
_PACKAGES = (
    *("ca-certificates", "python3", "python3-venv"),
    *("openjdk-8-jre-headless", "openjdk-26-jre-headless", "openjdk-27-jdk-headless"),
    "libmimalloc3",  # a test runs beside it
)
_COMMANDS = ("debootstrap", "chroot", "unshare", "mount")
# Sid is a moving target, and a mirror's copy of it may be older than its Release file allows.
_APT = 'Acquire::Check-Valid-Until "false";\nAPT::Install-Recommends "false";\n'


def reason_against() -> str:
    """Why commands cannot run in it, "" if they can."""
    if not (FOLDER / "usr" / "bin" / "python3").exists():
        return "there is no .sid: `make sid` as root makes it, by debootstrap"
    if os.geteuid() != 0:
        return "it takes root to enter .sid"
    return ""


def home(jdk: int) -> Path:
    """The home of a JDK, as the commands inside see it."""
    (found,) = (FOLDER / "usr" / "lib" / "jvm").glob(f"java-{jdk}-openjdk-*")
    return Path("/") / found.relative_to(FOLDER)


def present(jdk: int) -> bool:
    """A .sid that an earlier version made may lack it."""
    return any((FOLDER / "usr" / "lib" / "jvm").glob(f"java-{jdk}-openjdk-*"))


def command(*words: str | Path, how: str = "inside") -> list[str]:
    """The command line that runs `words` inside, where this checkout has the path that it has here.

    how: "inside", or "install" for what changes .sid itself.
    """
    namespaces = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
    return [*namespaces, "--", sys.executable, str(Path(__file__)), how, *map(str, words)]


def create() -> None:
    """Makes .sid; an unfinished one is not left behind."""
    if FOLDER.exists():
        print(f"{FOLDER} is there already: remove it for a newer one")
        return
    if os.geteuid() != 0:
        raise SystemExit("harness.sid: debootstrap and chroot need root; run `make sid` as root")
    missing = [name for name in _COMMANDS if not shutil.which(name)]
    if missing:
        raise SystemExit(f"harness.sid: {missing[0]} is not installed; run `apt-get install {missing[0]}`")
    draft = FOLDER.with_name(".sid-draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        subprocess.run(["debootstrap", "--variant=minbase", "sid", str(draft)], check=True)
        (draft / "etc" / "apt" / "apt.conf.d" / "90harness").write_text(_APT)
        draft.rename(FOLDER)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (("update", "-q"), ("install", "-q", "-y", *_PACKAGES), ("clean",)):
            subprocess.run(command("apt-get", *words, how="install"), check=True, env=environment)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
        raise


def _inside(words: list[str], installs: bool = False) -> None:
    """Runs in namespaces of its own: mounts what a program expects, and becomes the command."""

    def mount(*options: str, at: Path | None) -> None:
        subprocess.run(["mount", *options, *([str(at)] if at else [])], check=True)

    def bind(path: Path, *, read_only: bool = False) -> None:
        place = FOLDER / path.relative_to("/")
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.touch()
        mount("--bind", str(path), at=place)
        if read_only:
            mount("-o", "remount,bind,ro", at=place)

    # unshare works inside only if the root is a mount itself.
    mount("--bind", str(FOLDER), at=FOLDER)
    mount("-t", "proc", "proc", at=FOLDER / "proc")
    for name in ("sys", "dev"):
        mount("--rbind", f"/{name}", at=FOLDER / name)
    for name in ("dev/shm", "tmp"):
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", at=FOLDER / name)
    jres = (ROOT / ".jres").resolve()
    for path in (ROOT, jres):
        if path.exists():
            bind(path)
    bind(Path("/etc/resolv.conf").resolve(), read_only=True)
    # A proxy may have certificates of its own.  Not for `install`: the package ca-certificates writes to
    # this folder, and would take this machine's own certificates out of it.
    if not installs:
        bind(Path("/etc/ssl/certs"), read_only=True)
    here = Path.cwd()
    os.chroot(FOLDER)
    os.chdir(here if here.is_relative_to(ROOT) else "/")
    os.execvp(words[0], words)


def main() -> None:
    match sys.argv[1:]:
        case ["create"]:
            create()
        case ["inside" | "install" as how, *words] if words:
            _inside(words, installs=how == "install")
        case _:
            raise SystemExit("usage: python -m harness.installs.sid create")


if __name__ == "__main__":
    main()
