"""`offheap ps` and PID|NAME on real JVMs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import NOBODY, waiting_jvm
from offheap.errors import UserError
from offheap.inspect import discovery
from offheap.jvm.command_line import command


def _ps(*wrapper: str) -> list[dict[str, object]]:
    outcome = subprocess.run(
        [*wrapper, sys.executable, "-m", "offheap", "ps", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert found["schema"] == "offheap.ps/1"
    jvms: list[dict[str, object]] = found["jvms"]
    return jvms


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_a_jvm_is_listed(version: int, jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        (found,) = [row for row in _ps() if row["pid"] == jvm.pid]
        assert str(found["java_version"]).split(".")[0] == str(version)
        assert found["main"] == "Waiting"
        assert found["recorded"] == "no"
        assert found["live_file"] is None
        assert found["namespace_pid"] == jvm.pid
        assert 5 << 20 < int(str(found["rss_bytes"])) < 1 << 30
        assert 0 < float(str(found["uptime_seconds"])) < 120
    assert discovery.find(jvm.pid) is None


def test_the_table_shows_every_column(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        outcome = subprocess.run(
            [sys.executable, "-m", "offheap", "ps"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "COLUMNS": "120"},
        )
        heading, *rows = outcome.stdout.splitlines()
        assert heading.split() == ["PID", "USER", "JAVA", "RSS", "UP", "RECORDED", "MAIN"]
        (row,) = [row.split() for row in rows if row.split()[:1] == [str(jvm.pid)]]
        assert row[2].startswith("17.")
        assert row[-2:] == ["no", "Waiting"]


def test_a_jvm_without_perf_data_is_listed(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(21), waiting_classes, "-XX:-UsePerfData") as jvm:
        found = discovery.find(jvm.pid)
        assert found
        assert found.main == "Waiting"
        # From the `release` file of its home.
        assert found.java_version.split(".")[0] == "21"


def test_another_users_jvm_is_listed_as_far_as_it_can_be(
    jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    needs.root("to read as another user")
    needs.readable_by(NOBODY, sys.executable, "-c", "import offheap")
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        (found,) = [row for row in _ps(*NOBODY) if row["pid"] == jvm.pid]
        assert found["main"] == "Waiting"
        assert found["java_version"] is None
        assert found["recorded"] == "unknown"


def test_a_main_class_in_a_file_of_arguments(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    (tmp_path / "arguments").write_text("-Xss512k")
    with waiting_jvm(jre(17), waiting_classes, f"@{tmp_path}/arguments") as jvm:
        found = discovery.find(jvm.pid)
        assert found
        assert found.main == "Waiting"


def test_a_container_is_seen_with_both_its_pids(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    needs.namespaces("mount", "pid")
    wrapper = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    with waiting_jvm(jre(17), waiting_classes, wrapper=wrapper) as jvm:
        children = Path(f"/proc/{jvm.pid}/task/{jvm.pid}/children").read_text().split()
        found = discovery.find(int(children[0]))
        assert found
        assert found.namespace_pid == 1
        assert found.main == "Waiting"
        assert found.java_version.split(".")[0] == "17", found


def test_processes_that_are_no_jvm_are_not_listed() -> None:
    assert discovery.find(os.getpid()) is None
    assert discovery.find(1 << 22) is None


def test_a_name_resolves_to_its_jvm(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes, main="Searched") as first:
        assert discovery.resolve(str(first.pid)) == first.pid
        assert discovery.resolve("searche") == first.pid
        with (
            waiting_jvm(jre(11), waiting_classes, main="Searched") as second,
            pytest.raises(UserError) as ambiguous,
        ):
            discovery.resolve("Searched")
        assert f"{first.pid} Searched" in ambiguous.value.what
        assert f"{second.pid} Searched" in ambiguous.value.what
    with pytest.raises(UserError, match="no JVM has 'Searched'"):
        discovery.resolve("Searched")
    with pytest.raises(UserError, match="there is no process"):
        discovery.resolve(str(first.pid))
    with pytest.raises(UserError):
        discovery.resolve("")


@pytest.mark.parametrize(
    ("line", "main"),
    [
        ("java -jar /srv/app.jar --port 1", "/srv/app.jar"),
        ("java -cp a.jar:b.jar -Xmx1g com.example.Shop x", "com.example.Shop"),
        ("java --class-path=a -ea com.example.Shop", "com.example.Shop"),
        ("java -p mods --add-modules ALL-SYSTEM -m shop/com.example.Shop", "shop/com.example.Shop"),
        ("java --module=shop/com.example.Shop", "shop/com.example.Shop"),
        ("java --add-opens java.base/java.nio=ALL-UNNAMED -jar x.jar", "x.jar"),
        ("java -ea @options com.example.Shop", ""),
        ("java -version", ""),
        ("java", ""),
    ],
)
def test_the_main_class_of_a_command_line(line: str, main: str) -> None:
    assert command.main_of(line.split()) == main


def test_the_main_class_of_a_java_command() -> None:
    assert command.main_of_command("com.example.Shop /some file.jar x") == "com.example.Shop"
    assert command.main_of(("java", "-jar", "/my apps/shop.jar")) == "/my apps/shop.jar"
    assert command.short("/my apps/shop.jar") == "shop.jar"
    assert command.short("com.example.Shop") == "com.example.Shop"
    assert command.main_of_command("") == ""


@given(st.lists(st.text()))
def test_any_command_line_has_a_main_class_or_none(arguments: list[str]) -> None:
    assert command.main_of(arguments) == "" or command.main_of(arguments) in " ".join(arguments)
