"""Artifacts from Maven repositories, by the machine's `mvn` and whatever settings it has."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
TIME_LIMIT_SECONDS = 300
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>offheap</groupId><artifactId>benchmark</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{}
  </dependencies>
</project>
"""


def fetch(artifact: str, folder: Path) -> Path:
    """The jar of `group:artifact:version` in `folder`; a path that is not there if it cannot be had."""
    _, name, version = artifact.split(":")
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        _maven(f"{PLUGIN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    return jar


def fetch_with_dependencies(artifacts: Sequence[str], folder: Path) -> list[Path]:
    """The jars of these and of all they need, each `group:artifact:version[:classifier]`.

    Empty if one cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = ("groupId", "artifactId", "version", "classifier")
    pom = folder / "pom.xml"
    text = POM.format(
        "\n".join(
            "    <dependency>"
            + "".join(f"<{key}>{word}</{key}>" for key, word in zip(keys, artifact.split(":"), strict=False))
            + "</dependency>"
            for artifact in artifacts
        )
    )
    jars = folder / "jars"
    if not jars.exists() or not pom.exists() or pom.read_text() != text:
        shutil.rmtree(jars, ignore_errors=True)
        pom.write_text(text)
        if not _maven("-f", str(pom), f"{PLUGIN}:copy-dependencies", f"-DoutputDirectory={jars}"):
            shutil.rmtree(jars, ignore_errors=True)
    return sorted(jars.glob("*.jar"))


def _maven(*words: str) -> bool:
    maven = shutil.which("mvn")
    if maven is None:
        return False
    command = [maven, "-q", "-B", *words]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
    return outcome.returncode == 0
