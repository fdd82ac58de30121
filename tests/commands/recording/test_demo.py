"""`offheap demo`, as a new user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.warm_command import warm


@pytest.mark.usefixtures("jdk", "probe_library")
def test_demo_names_the_leak_and_writes_the_report(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(offheap("demo"), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 60
    assert "LEAK" in done.stdout
    assert "com.example.shop.pricing.PriceImport.openFeed" in done.stdout
    assert "java.util.zip.Inflater.init" in done.stdout
    assert "offheap attach" in done.stdout
    page = (tmp_path / "demo.html").read_text()
    assert page.startswith("<!doctype html>")

    asked = warm("leaks", tmp_path / "demo.offheap", "--json")
    first = json.loads(asked.stdout)["suspects"][0]
    names = [frame["name"] for frame in first["stack"]]
    assert first["verdict"] == "leak"
    assert names.index("com.example.shop.pricing.PriceImport.openFeed") < names.index(
        "com.example.shop.pricing.PriceImport.askNextSupplier"
    )


@pytest.mark.usefixtures("jdk", "probe_library")
def test_interrupted_demo_leaves_a_recording_and_no_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        offheap("demo", "--duration", "10m", "-o", "shop.offheap"),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "shop.offheap" / "meta.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(2)
    # A terminal's Ctrl-C goes to the whole group, too.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    asked = warm("stats", "shop.offheap", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr


def test_demo_without_a_jdk_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "javac"
    java.write_text("#!/bin/sh\necho 'error: release version 11 not supported' >&2; exit 2\n")
    java.chmod(0o755)
    (tmp_path / "bin" / "java").symlink_to("javac")
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        offheap("demo"), cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("offheap: ")
    assert "release version 11 not supported" in done.stderr
    assert "JAVA_HOME" in done.stderr
    assert not (tmp_path / "demo.offheap").exists()


def test_demo_refuses_what_cannot_be_done_before_it_starts(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    for arguments, words in ((["--duration", "1s"], "too short"), (["-o", "taken"], "exists already")):
        done = subprocess.run(
            offheap("demo", *arguments), cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert words in line


@pytest.mark.usefixtures("jdk", "probe_library")
def test_demo_of_the_java_heap_names_both_leaks(tmp_path: Path) -> None:
    done = subprocess.run(
        offheap("demo", "--java-heap"), cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "com.example.shop.pricing.PriceImport.openFeed" in done.stdout
    assert "com.example.shop.visitors.Visitors.openBasket" in done.stdout
    assert "offheap attach PID --java-heap" in done.stdout

    asked = warm("leaks", tmp_path / "demo.offheap", "--json")
    found = json.loads(asked.stdout)
    native, java = found["suspects"][0], found["java_heap"]["suspects"][0]
    assert native["verdict"] == java["verdict"] == "leak"
    assert native["blamed"]["name"] == "com.example.shop.pricing.PriceImport.openFeed"
    assert java["blamed"]["name"] == "com.example.shop.visitors.Visitors.openBasket"
    assert java["stack"][0] == java["stack"][0] | {"name": "byte[]", "kind": "class"}
