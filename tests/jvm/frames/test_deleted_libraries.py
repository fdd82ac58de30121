"""Libraries that a JVM extracts, loads and deletes: their functions still get names."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from harness import needs, public_folders
from harness.jvms.waiting_jvm import NOBODY
from harness.native.elf_images import shared_library
from harness.paths import JAVA, ROOT
from harness.peers import maven
from offheap.probe import control
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc.images.mapped_elf import MappedModule
from offheap.recording import load
from offheap.recording.names.naming import Naming
from offheap.symbols import Symbolizer, images

Jre = Callable[[int], Path]
SOURCE = JAVA / "Extracted.java"
OFFHEAP = [sys.executable, "-m", "offheap"]
KEPT_BY = ["Extracted.keep", "Extracted.keepOn"]


@pytest.fixture(autouse=True)
def _built(probe_library: Path) -> None:
    """Builds the probe from the current sources."""


@pytest.fixture(scope="module")
def folder(jdk: Path) -> Path:
    """The program's class and its library, unstripped and stripped; every user may read them."""
    made = public_folders.make("extracted")
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-d", str(made), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    for name, flags in (("whole", ()), ("stripped", ("-s",))):
        shared_library("extracted.c", made / f"lib{name}.so", "-fvisibility=hidden", *flags)
    return made


def command(java: Path, folder: Path, which: str) -> list[str]:
    options = ["-Xmx64m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={folder}"]
    return [str(java), *options, "-cp", str(folder), "Extracted", str(folder / f"lib{which}.so")]


class Program:
    """The program under a given command; the process ends with the block."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Program:
        self.expect("waiting")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        with self.process:
            pass

    def load(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.expect("loaded")

    def expect(self, line: str) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == line + "\n"

    def keep(self) -> None:
        """Returns once the library has allocated some more blocks."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.expect("kept")

    def end(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(30)


def check(recording: Path, *, hold: bool) -> None:
    """`hold`: the function that is not exported has a name, too."""
    found = load(recording)
    stacks = [found.stack(number) for number in range(len(found.stack_kinds))]
    stacks = [stack for stack in stacks if len(stack) > 1 and stack[1].module.startswith("extracted")]
    assert stacks
    for stack in stacks:
        malloc, holding, exported, *java = [frame.name for frame in stack]
        assert [malloc, exported, *java[:2]] == ["malloc", "Java_Extracted_keep", *KEPT_BY]
        assert holding == "hold" if hold else "+0x" in holding, (holding, found.info.coverage)


def held(pid: int) -> list[str]:
    """Files of libraries, and copies of their memory, that the process has open."""
    links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    return [link for link in links if "extracted" in link or "offheap-image" in link]


def await_held(pid: int) -> None:
    """On a busy machine the recorder needs some seconds to open the library."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        # The recorder opens and closes other files at the same time.
        with contextlib.suppress(FileNotFoundError):
            if held(pid):
                break
        time.sleep(0.05)


def test_run(jre: Jre, folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.offheap"
    with Program(
        [*OFFHEAP, "run", "--exact", "-o", str(output), "--", *command(jre(17), folder, "stripped")]
    ) as it:
        it.load()
        await_held(it.process.pid)
        assert it.end() == 0
    check(output, hold=False)


@contextlib.contextmanager
def attached(pid: int, output: Path, *wrapper: str) -> Iterator[None]:
    """Yields once the recorder runs, and interrupts the recorder at the end of the block."""
    words = ["attach", str(pid), "--exact", "-o", str(output)]
    with subprocess.Popen(
        [*wrapper, *OFFHEAP, *words], cwd=output.parent, stderr=subprocess.PIPE, text=True
    ) as it:
        while it.poll() is None and not (output / "meta.json").exists():
            time.sleep(0.02)
        yield
        it.send_signal(signal.SIGINT)
        _, said = it.communicate(timeout=60)
        assert it.returncode == 0, said


@pytest.mark.parametrize("version", [11, 25])
def test_attach_after_it_was_deleted(version: int, jre: Jre, folder: Path, tmp_path: Path) -> None:
    with Program(command(jre(version), folder, "whole")) as it:
        it.load()
        with attached(it.process.pid, tmp_path / "a.offheap"):
            it.keep()
        assert not held(it.process.pid)
        # The kernel lets root open the mapped file itself.
        check(tmp_path / "a.offheap", hold=os.geteuid() == 0)


def test_attach_before_it_is_loaded(jre: Jre, folder: Path, tmp_path: Path) -> None:
    with Program(command(jre(21), folder, "whole")) as it:
        with attached(it.process.pid, tmp_path / "a.offheap"):
            it.load()
            await_held(it.process.pid)
            assert len(held(it.process.pid)) == 1
        check(tmp_path / "a.offheap", hold=True)
        assert not held(it.process.pid)


class Met(Symbolizer):
    """Keeps the modules that it gets, and opens no file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.modules: list[MappedModule] = []

    def meet(self, modules: Iterable[MappedModule]) -> None:
        self.modules.extend(modules)


def test_the_probe_copies_what_was_deleted_before(jre: Jre, folder: Path) -> None:
    """The copy is for users who may neither trace the process nor follow the kernel's link to the file."""
    with Program(command(jre(17), folder, "whole")) as it:
        pid = it.process.pid
        it.load()
        path = control.start(pid).live_file
        try:
            with LiveFile(path) as live_file:
                met = Met()
                Naming(live_file, met).modules()
                (module,) = [one for one in met.modules if "extracted" in one.path]
                assert module.descriptor >= 0
                assert module.copied
                copy = images._in_memory(Path(f"/proc/{pid}/fd/{module.descriptor}"), -module.start, module)
            control.detach(pid)
        finally:
            path.unlink(missing_ok=True)
        assert not held(pid)
    assert copy
    exported = copy.image.symbols(".dynsym")
    assert exported
    names = {exported.name(entry["name"]) for entry in exported.entries}
    assert {b"before", b"Java_Extracted_keep", b"after"} <= names


@pytest.mark.parametrize("early", [True, False])
def test_attach_as_an_ordinary_user(early: bool, jdk: Path, folder: Path) -> None:
    needs.root("to become another user")
    needs.readable_by(NOBODY, sys.executable, "-c", "import offheap.probe.control")
    place = public_folders.make("nobody")
    place.chmod(0o777)
    for name in ("Extracted.class", "libwhole.so"):
        shutil.copy(folder / name, place)
    output = place / "a.offheap"
    with Program([*NOBODY, *command(jdk / "bin" / "java", place, "whole")]) as it:
        if not early:
            it.load()
        with attached(it.process.pid, output, *NOBODY):
            if early:
                it.load()
        # The probe opens libraries that are loaded while it records.
        check(output, hold=early)


def test_attach_to_another_mount_namespace(jdk: Path, folder: Path, tmp_path: Path) -> None:
    """GIVEN a mount namespace WHEN its library is deleted THEN names come from that file, not ours."""
    needs.namespaces("mount")
    script = f'mount -t tmpfs none {folder} && cp -r "$0"/* {folder} && exec "$@"'
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    wrapper = ["unshare", "--mount", "sh", "-c", script, str(copy)]
    with Program([*wrapper, *command(jdk / "bin" / "java", folder, "whole")]) as it:
        it.load()
        with attached(it.process.pid, tmp_path / "a.offheap"):
            it.keep()
        check(tmp_path / "a.offheap", hold=True)


PUBLISHED = {
    # This library is deleted at once.
    "net.java.dev.jna:jna:5.14.0": (
        'com.sun.jna.Function.getFunction("c", "strdup").invokePointer(new Object[] {"a label"})',
        "Java_com_sun_jna_Native_invokePointer",
    ),
    # This library is deleted when the JVM ends.
    "com.github.luben:zstd-jni:1.5.6-3": (
        "KEPT.add(new com.github.luben.zstd.ZstdCompressCtx())",
        "Java_com_github_luben_zstd_ZstdCompressCtx_init",
    ),
}
PROGRAM = """
public final class Published {{
    static final java.util.List<Object> KEPT = new java.util.ArrayList<>();
    static volatile int done;
    public static void main(String[] args) throws Exception {{
        System.out.println("waiting");
        System.in.read(); // for the end of a line
        Thread thread = new Thread(Published::allocate);
        thread.setDaemon(true);
        thread.start();
        while (System.in.read() >= 0) {{
            for (int goal = done + 50; done < goal; Thread.sleep(1)) {{}}
            System.out.println("kept");
        }}
    }}
    static void allocate() {{
        for (;;) {{
            {};
            if (++done == 50) System.out.println("loaded");
            try {{ Thread.sleep(1); }} catch (InterruptedException end) {{ return; }}
        }}
    }}
}}
"""


def await_opened(folder: Path, output: Path) -> None:
    """Until the recorder has opened the library in `folder`, which is deleted when the JVM ends."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            with contextlib.suppress(OSError):
                file = link.readlink()
                if file.is_relative_to(folder) and not file.is_relative_to(output):
                    return
        time.sleep(0.05)


@pytest.mark.parametrize("artifact", PUBLISHED)
def test_published_libraries(artifact: str, jdk: Path, jre: Jre, tmp_path: Path) -> None:
    jar = maven.fetch(artifact, ROOT / "build" / "peers")
    if not jar.exists():
        needs.program("mvn", "which fetches the library")
        needs.skip(f"{artifact}, which mvn could not fetch", needs.INTERNET)
    body, function = PUBLISHED[artifact]
    (tmp_path / "Published.java").write_text(PROGRAM.format(body))
    options = ["--release", "11", "-cp", str(jar), "-d", str(tmp_path)]
    compiler = [str(jdk / "bin" / "javac"), *options, str(tmp_path / "Published.java")]
    subprocess.run(compiler, check=True, capture_output=True, timeout=120)
    java = [str(jre(21)), "-Xmx64m", f"-Djava.io.tmpdir={tmp_path}", f"-Djna.tmpdir={tmp_path}"]
    program = [*java, "-cp", f"{jar}:{tmp_path}", "Published"]
    for way in ("run", "attach"):
        output = tmp_path / f"{way}.offheap"
        under = [*OFFHEAP, "run", "--exact", "-o", str(output), "--"] if way == "run" else []
        with Program([*under, *program]) as it:
            it.load()
            if way == "attach":
                with attached(it.process.pid, output):
                    it.keep()
            else:
                await_opened(tmp_path, output)
            assert it.end() == 0
        assert function in {frame.name for frame in load(output).frames}, way
    assert not list(tmp_path.glob("*.so"))
