"""PID|NAME for programs that run from a jar, and for files named like a process."""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.jvms.waiting_jvm import waiting_jvm
from harness.plugins.rotation import one_of
from harness.warm_command import warm
from offheap.errors import UserError
from offheap.inspect import discovery
from offheap.jvm.command_line import jar_manifest

MANIFEST = "META-INF/MANIFEST.MF"
PLAIN = "Manifest-Version: 1.0\r\nMain-Class: com.example.Shop\r\n\r\n"


def jar(path: Path, manifest: str = PLAIN, method: int = zipfile.ZIP_DEFLATED, others: int = 3) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for number in range(others):
            file.writestr(f"com/example/{number}/META-INF/MANIFEST.MF", "Main-Class: wrong.One\n")
        file.writestr(MANIFEST, manifest)
        file.comment = b"a comment, which ends the file"
    return path


def named(path: Path) -> str:
    return jar_manifest.main_class(os.getpid(), str(path))


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        (PLAIN, "com.example.Shop"),
        ("main-class:   com.example.Shop  \n", "com.example.Shop"),
        ("Main-Class: com.exam\r\n ple.Shop\r\n", "com.example.Shop"),
        (
            "Main-Class: org.springframework.boot.Launcher\nStart-Class: com.example.Shop\n",
            "com.example.Shop",
        ),
        ("Manifest-Version: 1.0\n\nName: x\nMain-Class: of.a.Section\n", ""),
        ("Main-Class: \x1b[31mred\n", ""),
        ("Main-Class: " + "a" * 501, ""),
        ("", ""),
    ],
)
def test_the_class_that_a_manifest_names(manifest: str, name: str, tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = jar(tmp_path / f"{method}.jar", manifest, method)
        assert named(path) == name
        # An executable jar begins with a script.
        script = tmp_path / f"script-{method}.jar"
        script.write_bytes(b'#!/bin/sh\nexec java -jar "$0"\n' + path.read_bytes())
        assert named(script) == name


def test_what_is_no_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jar(tmp_path / "a.jar", others=0)
    raw = path.read_bytes()
    for end in range(0, raw.rindex(b"PK\x05\x06") + 22, 7):
        (tmp_path / "cut.jar").write_bytes(raw[:end])
        assert named(tmp_path / "cut.jar") == ""
    os.mkfifo(tmp_path / "fifo.jar")
    (tmp_path / "folder.jar").mkdir()
    (tmp_path / "loop.jar").symlink_to("loop.jar")
    (tmp_path / "link.jar").symlink_to("a.jar")
    for name in ("fifo", "folder", "loop", "missing"):
        assert named(tmp_path / f"{name}.jar") == ""
    assert named(tmp_path / "link.jar") == "com.example.Shop"
    assert named(Path("/dev/zero")) == ""
    monkeypatch.chdir(tmp_path)
    assert named(Path("a.jar")) == "com.example.Shop"


def test_a_jar_that_is_made_to_harm(tmp_path: Path) -> None:
    """A sparse file whose directory claims four gigabytes, and a manifest that inflates to one."""
    huge = tmp_path / "huge.jar"
    with huge.open("wb") as file:
        file.truncate(5 << 30)
        file.seek(5 << 30)
        file.write(jar_manifest._END.pack(b"PK\x05\x06", 0, 0, 1, 1, (4 << 30) - 1, 0, 0))
    bomb = jar(tmp_path / "bomb.jar", PLAIN + "x" * (64 << 20))
    began = time.process_time()
    assert named(huge) == ""
    assert named(bomb) == "com.example.Shop"
    assert time.process_time() - began < 1


@given(data=st.data())
def test_any_bytes(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = jar(tmp_path_factory.mktemp("any") / "a.jar", others=1)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    named(path)


@pytest.mark.parametrize("version", one_of([11, 17, 21, 25]))
def test_a_program_of_a_jar_is_found_by_its_class(
    version: int,
    jre: Callable[[int], Path],
    waiting_classes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "app.jar"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(MANIFEST, "Main-Class: Waiting\nStart-Class: com.example.JarNamed\n\n")
        file.write(waiting_classes / "Waiting.class", "Waiting.class")
    with waiting_jvm(jre(version), waiting_classes, "-jar", str(path)) as jvm:
        found = discovery.find(jvm.pid)
        assert found
        assert (found.main, found.main_class) == ("app.jar", "com.example.JarNamed")
        for name in ("JarNamed", "com.example.JarNamed", "example.jarnamed", str(jvm.pid)):
            assert discovery.resolve(name) == jvm.pid
        outcome = warm("ps", "--json")
        (row,) = [row for row in json.loads(outcome.stdout)["jvms"] if row["pid"] == jvm.pid]
        assert (row["main"], row["main_class"]) == ("app.jar", "com.example.JarNamed")

        # A process takes precedence over a file of that name; a path means the file.
        monkeypatch.chdir(tmp_path)
        for text in ("JarNamed", str(jvm.pid)):
            (tmp_path / text).mkdir()
        meant, note = discovery.resolve_or_path("JarNamed")
        assert meant == jvm.pid
        assert note.endswith("for the file of that name write ./JarNamed")
        assert discovery.resolve_or_path(str(jvm.pid)) == (jvm.pid, "")
        assert discovery.resolve_or_path("./JarNamed") == (Path("JarNamed"), "")
        assert discovery.resolve_or_path("JarNamed.offheap") == (Path("JarNamed.offheap"), "")
        told = warm("where", "JarNamed", "--no-attach")
        assert told.returncode == 0, told.stderr
        assert re.search(rf"JarNamed is PID {jvm.pid}, app\.jar \(com\.example\.JarNamed\)", told.stderr)
        assert f"(pid {jvm.pid}" in told.stdout
        with (
            waiting_jvm(jre(version), waiting_classes, "-jar", str(path)),
            pytest.raises(UserError, match=r"fits 2 JVMs.*or \./JarNamed for the file"),
        ):
            discovery.resolve_or_path("JarNamed")
    assert discovery.resolve_or_path("JarNamed") == (Path("JarNamed"), "")
    with pytest.raises(UserError, match=r"no JVM has 'no\.such\.name'"):
        discovery.resolve_or_path("no.such.name")
