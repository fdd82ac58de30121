"""Artifacts from Maven repositories, by the machine's `mvn` with its own settings."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
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
    """The jars of these and of their dependencies, each `group:artifact:version[:classifier]`.

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


COPY_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>offheap</groupId><artifactId>benchmark</artifactId><version>1</version><packaging>pom</packaging>
  <build><plugins><plugin>
    <groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>
    <configuration><artifactItems>
{3}
    </artifactItems></configuration>
  </plugin></plugins></build>
</project>
"""


class Unavailable(Exception):
    """An artifact cannot be had, or is not the one that was pinned; the message says which."""


def jar_name(artifact: str) -> str:
    """The file name of `group:artifact:version[:classifier]`."""
    return "-".join(artifact.split(":")[1:]) + ".jar"


def digest(path: Path) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch_exactly(artifacts: Iterable[str], folder: Path) -> dict[str, Path]:
    """The jars of these without their dependencies, each `group:artifact:version[:classifier]`."""
    jars = {artifact: folder / jar_name(artifact) for artifact in artifacts}
    missing = [artifact for artifact, jar in jars.items() if not jar.exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        pom = folder / "pom.xml"
        pom.write_text(COPY_POM.format(*PLUGIN.split(":"), "\n".join(map(_item, missing))))
        _maven("-f", str(pom), f"{PLUGIN}:copy", f"-DoutputDirectory={folder}")
    absent = [artifact for artifact, jar in jars.items() if not jar.exists()]
    if absent:
        raise Unavailable(f"Maven cannot fetch {', '.join(absent)}")
    return jars


def fetch_pinned(artifacts: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """The jars of these without their dependencies; each must have the SHA-256 of its value."""
    jars = fetch_exactly(artifacts, folder)
    for artifact, expected in artifacts.items():
        if digest(jars[artifact]) != expected:
            jars[artifact].unlink()
            raise Unavailable(f"{artifact} is not the jar that was pinned: its SHA-256 is another")
    return jars


def _item(artifact: str) -> str:
    keys = ("groupId", "artifactId", "version", "classifier")
    tags = (f"<{key}>{word}</{key}>" for key, word in zip(keys, artifact.split(":"), strict=False))
    return f"      <artifactItem>{''.join(tags)}</artifactItem>"


def _maven(*words: str) -> bool:
    maven = shutil.which("mvn")
    if maven is None:
        return False
    command = [maven, "-q", "-B", *words]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
    return outcome.returncode == 0
