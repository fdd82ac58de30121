"""Installs pip into this virtual environment where Python has no ensurepip.

Debian keeps ensurepip in a package of its own, python3-venv, which only root can install.  But every user can
download a package: python3-pip-whl holds pip as a wheel, and that installs pip from the user's package index.
apt checks the package's signature.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "python3-pip-whl"
MEND = "install your distribution's python3-venv package"
_SECONDS = 300  # of each command: a slow mirror, not a hanging one


def _run(command: list[str], folder: Path) -> None:
    try:
        outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(str(error)) from None
    if outcome.returncode:
        raise ValueError(f"{command[0]}: {(outcome.stderr.strip() or 'failed').splitlines()[-1]}")


def wheel(folder: Path) -> Path:
    """The wheel of pip, below `folder`; ValueError where there is none to be had."""
    download = ["apt-get", "-qq", "download", PACKAGE]
    try:
        _run(download, folder)
    except ValueError:
        # Images often come without lists of packages: lists of our own, since only root may write apt's.
        own = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache"]
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        _run(["apt-get", "-qq", *own, "update"], folder)
        _run([*download, *own], folder)
    (package,) = folder.glob(f"{PACKAGE}_*.deb")
    _run(["dpkg-deb", "--extract", str(package), "package"], folder)
    wheels = sorted(folder.glob("package/usr/share/python-wheels/pip-*.whl"))
    if not wheels:
        raise ValueError(f"{package.name} has no wheel of pip")
    return wheels[-1]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            found = wheel(Path(name))
        except ValueError as error:
            raise SystemExit(f"this Python has no ensurepip ({error}): {MEND}") from None
        # A wheel of pip can install pip.
        command = [sys.executable, f"{found}/pip", "install", "--quiet", "--disable-pip-version-check", "pip"]
        raise SystemExit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
