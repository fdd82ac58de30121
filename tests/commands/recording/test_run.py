"""`offheap run` on real programs: streams, signals, exit statuses, scripts, and which JVM is recorded."""

from __future__ import annotations

import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.zoo import Running, Zoo, programs
from harness.native.compiler import compile_c
from offheap.errors import UserError
from offheap.probe.live_files import run_folder
from offheap.recording import load

Jre = Callable[[int], Path]


@pytest.fixture(autouse=True)
def _built(probe_library: Path) -> None:
    """Builds the library that `offheap run` preloads from the current sources."""


def offheap_run(*arguments: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "offheap", "run", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def leak(zoo: Zoo, java: Path, seconds: float = 1.0) -> list[str]:
    return zoo.command(programs()["inflaters"], java, 200, seconds)


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


def quoted(command: Sequence[str]) -> str:
    return " ".join(f"'{word}'" for word in command)


def leftovers() -> set[str]:
    """Folders of runs that have ended; other runs on this machine may be alive."""
    made = {name for name in os.listdir("/dev/shm") if name.startswith("offheap-run-")}
    return {name for name in made if not Path(f"/proc/{name.split('-')[2]}").exists()}


def test_a_jvm(zoo: Zoo, jre: Jre, tmp_path: Path) -> None:
    before = leftovers()
    done = offheap_run("-o", "a.offheap", "--every", "0.2s", "--", *leak(zoo, jre(17), 5), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pid ")
    assert "offheap" not in done.stdout
    assert re.search(r"recorded a\.offheap; now run: offheap leaks a\.offheap", done.stderr)
    recording = load(tmp_path / "a.offheap")
    assert recording.info.ended == "exited"
    assert recording.info.entry == "preload"
    assert recording.info.main_class == "leaks.Inflaters"
    assert len(recording.process) >= 3
    assert "java.util.zip.Inflater.init" in {frame.name for frame in recording.frames}
    assert leftovers() <= before


def test_a_script_that_asks_for_the_version_first(zoo: Zoo, jre: Jre, tmp_path: Path) -> None:
    """catalina.sh does so: the last JVM counts, and the tools before it leave no files."""
    java = jre(21)
    start = script(
        tmp_path / "start.sh",
        f"{java} -version 2>/dev/null",
        "ls / > /dev/null; echo $(uname -s)",
        f"exec {quoted(leak(zoo, java))}",
    )
    done = offheap_run("-o", "a.offheap", "--exact", "--", start, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("*.offheap")] == ["a.offheap"], done.stderr
    recording = load(tmp_path / "a.offheap")
    assert recording.info.main_class == "leaks.Inflaters"
    assert recording.info.mode == "exact"


def test_a_script_that_waits_for_its_jvm(zoo: Zoo, jre: Jre, tmp_path: Path) -> None:
    start = script(tmp_path / "start.sh", quoted(leak(zoo, jre(17))), "echo status $?", "exit 7")
    done = offheap_run("-o", "a.offheap", "--", start, folder=tmp_path)
    assert done.returncode == 7, done.stderr
    assert "status 0" in done.stdout
    assert load(tmp_path / "a.offheap").info.main_class == "leaks.Inflaters"


def test_a_jvm_that_comes_late(zoo: Zoo, jre: Jre, tmp_path: Path) -> None:
    """The shell is recorded until a JVM starts, and its recording is dropped then."""
    start = script(tmp_path / "start.sh", "sleep 3", quoted(leak(zoo, jre(17))), "true")
    done = offheap_run("-o", "a.offheap", "--", start, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("*.offheap")] == ["a.offheap"]
    assert load(tmp_path / "a.offheap").info.main_class == "leaks.Inflaters"


def test_a_native_program(tmp_path: Path) -> None:
    source = tmp_path / "leak.c"
    source.write_text(
        "#include <stdlib.h>\nchar *kept[1000];\n"
        "__attribute__((noinline)) char *keep(void) { char *b = malloc(1000); *b = 1; return b; }\n"
        "int main(void) { for (int i = 0; i < 1000; i++) kept[i] = keep(); return 3; }\n"
    )
    program = compile_c([source], tmp_path / "leak")
    done = offheap_run("-o", "a.offheap", "--exact", "--", program, folder=tmp_path)
    assert done.returncode == 3, done.stderr
    recording = load(tmp_path / "a.offheap")
    assert recording.info.java_version == ""
    kept = recording.live[recording.live["size"] == 1000]
    assert len(kept) == 1000
    assert [frame.name for frame in recording.stack(int(kept["stack"][0]))][:3] == ["malloc", "keep", "main"]


def test_children_of_the_jvm_do_not_inherit(tmp_path: Path, jre: Jre, jdk: Path) -> None:
    source = tmp_path / "Child.java"
    source.write_text(
        "public class Child { public static void main(String[] a) throws Exception {\n"
        ' String[] command = {"sh", "-c", "echo child:$LD_PRELOAD:$OFFHEAP"};\n'
        " new ProcessBuilder(command).inheritIO().start().waitFor(); } }"
    )
    subprocess.run([jdk / "bin" / "javac", "--release", "11", "-d", tmp_path, source], check=True)
    done = offheap_run("-o", "a.offheap", "--", jre(17), "-cp", tmp_path, "Child", folder=tmp_path)
    assert "child::\n" in done.stdout, done.stderr
    followed = offheap_run(
        "-o", "b.offheap", "--follow", "--", jre(17), "-cp", tmp_path, "Child", folder=tmp_path
    )
    assert re.search(r"child:\S*liboffheap\.so:\S*follow", followed.stdout), followed.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_program(zoo: Zoo, jre: Jre, tmp_path: Path, number: signal.Signals) -> None:
    """The JVM ends as it does without offheap, and the recording is finished."""
    command = [sys.executable, "-m", "offheap", "run", "-o", str(tmp_path / "a.offheap"), "--"]
    with Running([*command, *leak(zoo, jre(17), 0)]) as running:
        os.kill(running.process.pid, number)
        assert running.process.wait(30) == 128 + number
    recording = load(tmp_path / "a.offheap")
    assert recording.info.ended == "exited"
    assert recording.info.pid == running.pid


def test_a_killed_jvm(zoo: Zoo, jre: Jre, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "offheap", "run", "-o", str(tmp_path / "a.offheap"), "--"]
    with Running([*command, *leak(zoo, jre(17), 0)]) as running:
        os.kill(running.pid, signal.SIGKILL)
        assert running.process.wait(30) == 128 + signal.SIGKILL
    assert load(tmp_path / "a.offheap").info.ended == "killed"


def test_control_c_in_a_terminal(tmp_path: Path) -> None:
    """The terminal sends SIGINT to offheap and the program: the program must get one, not two."""
    counter = tmp_path / "count.py"
    counter.write_text(
        "import signal, time\ncaught = []\n"
        "signal.signal(signal.SIGINT, lambda *_: caught.append(1))\n"
        "print('ready', flush=True)\n"
        "while not caught: time.sleep(0.05)\n"
        "time.sleep(1)\nprint('caught', len(caught), flush=True)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "offheap", "run", "--", sys.executable, str(counter)])
    printed = ""
    try:
        while "ready" not in printed:
            printed += os.read(terminal, 1000).decode()
        os.write(terminal, b"\x03")
        while True:
            printed += os.read(terminal, 1000).decode()
    except OSError:
        pass  # EIO: the other side is closed
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, printed
    assert "caught 1" in printed


def test_duration_ends_the_recording_not_the_program(zoo: Zoo, jre: Jre, tmp_path: Path) -> None:
    arguments = ["-o", "a.offheap", "--duration", "0.5s", "--every", "0.1s"]
    done = offheap_run(*arguments, "--", *leak(zoo, jre(17), 8), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "a.offheap").info.ended == "recording"


def test_the_recording_is_named_after_the_program(zoo: Zoo, jre: Jre, tmp_path: Path) -> None:
    done = offheap_run(*leak(zoo, jre(17)), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.iterdir()
    assert re.fullmatch(r"java-\d+\.offheap", made.name)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no command is given; write it after --"),
        (["--", "/nowhere/java"], "/nowhere/java cannot be started: No such file or directory"),
        (["-o", "/nowhere/a.offheap", "--", "true"], "/nowhere is not a folder"),
        (["-o", ".", "--", "true"], ". exists already; choose another name with -o"),
        (["--interval", "0", "--", "true"], "--interval must be greater than 0"),
        (["--budget", "0%", "--", "true"], "'0%' is not between 0.0001% and 100%"),
        (["--budget", "1", "--", "true"], "'1' is not a percentage (write 1%, 0.25%)"),
        (["--budget", "1%", "--exact", "--", "true"], "so --budget has no effect; leave one"),
        (["--every", "0", "--", "true"], "--every must be greater than 0"),
    ],
)
def test_wrong_use(arguments: list[str], words: str, tmp_path: Path) -> None:
    before = leftovers()
    done = offheap_run(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
    assert leftovers() <= before


def test_a_static_program_says_so(tmp_path: Path) -> None:
    # No libc: zig takes minutes to build a static one.
    source = tmp_path / "quiet.c"
    source.write_text(
        "#ifdef __x86_64__\n"
        '#define EXIT "mov $60, %eax; xor %edi, %edi; syscall"\n'
        "#else\n"
        '#define EXIT "mov x8, #93; mov x0, #0; svc #0"\n'
        "#endif\n"
        "void _start(void) { __asm__ volatile(EXIT); }\n"
    )
    program = compile_c([source], tmp_path / "quiet", flags=["-nostdlib", "-static", "-ffreestanding"])
    done = offheap_run("--", program, folder=tmp_path)
    assert done.returncode == 2
    assert "never loaded the probe; it may be linked statically" in done.stderr


def test_no_room_in_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's /dev/shm of 64 MB is enough for samples; exact mode uses the disk, or says why not."""
    real = os.statvfs

    def small(path: str) -> os.statvfs_result:
        found = real(path)
        return os.statvfs_result((found[0], 1, 1, 1, 1, *found[5:])) if path == "/dev/shm" else found

    monkeypatch.setattr(os, "statvfs", small)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = run_folder.make(exact=True)
    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) in (0o700, 0o1733)
    monkeypatch.setattr(os, "statvfs", lambda path: small("/dev/shm"))
    with pytest.raises(UserError, match=r"neither /dev/shm nor .* has 160 MiB free"):
        run_folder.make(exact=True)


def test_a_full_output_does_not_stop_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    needs.mounted(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder])
    try:
        began = time.monotonic()
        done = offheap_run(
            "-o", folder / "a.offheap", "--", "sh", "-c", "sleep 3; echo went on", folder=tmp_path
        )
        assert time.monotonic() - began >= 3
    finally:
        subprocess.run(["umount", folder], check=True)
    assert done.stdout == "went on\n"
    assert done.returncode == 2
    assert re.search(r"offheap: the disk of .* is full", done.stderr)
