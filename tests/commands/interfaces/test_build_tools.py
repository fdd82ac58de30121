"""The recipes of docs/ci.md, extracted from the page and run: Maven and Gradle tests of zoo programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness import needs
from harness.command_line import offheap
from harness.jvms.zoo import LEAKS
from harness.paths import ROOT

DOCUMENT = ROOT / "docs" / "ci.md"
DEBIAN_JARS = [Path("/usr/share/java") / name for name in ("junit4.jar", "hamcrest-core.jar")]
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>offheap</groupId><artifactId>recipe</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>11</maven.compiler.source>
    <maven.compiler.target>11</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version><scope>test</scope>
    </dependency>
  </dependencies>
  <profiles>
{profile}
  </profiles>
</project>
"""
GRADLE = """apply plugin: 'java'
dependencies {{ {configuration} files({jars}) }}
{recipe}
"""
TEST = """package leaks;

import java.io.InputStream;
import org.junit.Test;

public class ProgramTest {{
    @Test public void itRuns() throws Exception {{
        // The program would read what the build tool writes to its worker.
        System.setIn(InputStream.nullInputStream());
        Thread program = new Thread(() -> {{
            try {{
                {name}.main(new String[] {{"200"}});
            }} catch (Exception failure) {{
                throw new IllegalStateException(failure);
            }}
        }});
        program.setDaemon(true);
        program.start();
        Thread.sleep(30_000);
    }}
}}
"""

PROGRAMS = pytest.mark.parametrize(
    ("name", "outcomes"),
    [("Inflaters", {1}), pytest.param("Churn", {0, 3}, marks=pytest.mark.slow)],  # 3: the gate cannot tell
)

pytestmark = pytest.mark.usefixtures("probe_library")


def recipe(language: str) -> str:
    """The only code block in that language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return str(block)


def write_project(folder: Path, name: str) -> None:
    """A test that runs a program of the zoo for half a minute, as the page advises.

    After thirteen seconds the verdict from a bare live file may be "growing".
    """
    sources, tests = folder / "src" / "main" / "java" / "leaks", folder / "src" / "test" / "java" / "leaks"
    sources.mkdir(parents=True)
    tests.mkdir(parents=True)
    (program,) = LEAKS.rglob(f"{name}.java")
    for source in (program, *(LEAKS / "exhibit").glob("*.java")):
        shutil.copy(source, sources)
    (tests / "ProgramTest.java").write_text(TEST.format(name=name))


def run(command: Sequence[str], folder: Path, library: Path) -> subprocess.CompletedProcess[str]:
    # Gradle writes a file with the class path of each test JVM into its temporary folder.
    environment = {**os.environ, "OFFHEAP_LIBRARY": str(library), "GRADLE_OPTS": f"-Djava.io.tmpdir={folder}"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def check(recordings: Path, junit: Path) -> subprocess.CompletedProcess[str]:
    command = offheap("check", *sorted(recordings.glob("*.live")), "--junit", junit)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_variable_of_the_recipe_is_the_probe(probe_library: Path) -> None:
    (line,) = re.findall(r"^ +export OFFHEAP_LIBRARY=\$\(offheap (.*)\)$", DOCUMENT.read_text(), re.MULTILINE)
    answer = subprocess.run(
        ["sh", "-c", f'"$@" {line}', "sh", *offheap()], capture_output=True, text=True, timeout=60, check=True
    )
    assert Path(answer.stdout.strip()).samefile(probe_library)


@PROGRAMS
def test_maven(name: str, outcomes: set[int], probe_library: Path, tmp_path: Path) -> None:
    maven = needs.program("mvn")
    write_project(tmp_path, name)
    (tmp_path / "pom.xml").write_text(POM.format(profile=recipe("xml")))
    recordings = tmp_path / "target" / "offheap"
    recordings.mkdir(parents=True)
    built = run([maven, "-B", "-Poffheap", "test"], tmp_path, probe_library)
    if built.returncode and re.search(r"Could not (resolve|transfer)|could not be resolved", built.stdout):
        needs.skip("the recipe's Maven plugins", needs.INTERNET)
    assert built.returncode == 0, built.stdout
    report = tmp_path / "target" / "surefire-reports" / "TEST-offheap.xml"
    checked = check(recordings, report)
    assert checked.returncode in outcomes, checked.stdout + checked.stderr
    assert int(ElementTree.parse(report).getroot().get("failures", "")) == (name == "Inflaters")
    assert ("leaks.Inflaters.openInflater" in checked.stdout) == (name == "Inflaters")


@PROGRAMS
def test_gradle(name: str, outcomes: set[int], probe_library: Path, tmp_path: Path) -> None:
    gradle = needs.program("gradle")
    if not all(jar.exists() for jar in DEBIAN_JARS):
        needs.skip("JUnit 4", needs.apt("junit4"))
    old = subprocess.run([gradle, "--version"], capture_output=True, text=True, timeout=120, check=True)
    configuration = (
        "testCompile" if re.search(r"^Gradle [1-6]\.", old.stdout, re.MULTILINE) else "testImplementation"
    )
    write_project(tmp_path, name)
    jars = ", ".join(f"'{jar}'" for jar in DEBIAN_JARS)
    (tmp_path / "build.gradle").write_text(
        GRADLE.format(configuration=configuration, jars=jars, recipe=recipe("groovy"))
    )
    (tmp_path / "settings.gradle").write_text("rootProject.name = 'recipe'\n")
    built = run([gradle, "--offline", "--no-daemon", "test"], tmp_path, probe_library)
    assert built.returncode == 0, built.stdout + built.stderr
    checked = check(tmp_path / "build" / "offheap", tmp_path / "offheap.xml")
    assert checked.returncode in outcomes, checked.stdout + checked.stderr
    assert ("leaks.Inflaters.openInflater" in checked.stdout) == (name == "Inflaters")
