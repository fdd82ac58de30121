"""`offheap anonymize`: no name of the application is left, and the analysis stays the same."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from harness.recordings import stored
from harness.recordings.java_beside_native import shop
from offheap import recording
from offheap.cli.main import main
from offheap.errors import UserError
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.model import Frame, Info, Module, Recording
from offheap.recording.storage.layout import APPENDED, REPLACED
from offheap.recording.storage.writer import RecordingWriter
from offheap.rewriting import content as contents
from offheap.rewriting.anonymize import anonymize
from offheap.rewriting.hashing import Hashes, key_of
from offheap.rewriting.public_names import PublicModules, is_vm_thread, public_flags

KEY = bytes(range(32))
HOME = "/home/acme/jdk/lib"
MODULES = [
    Module(f"{HOME}/server/libjvm.so", "0a", 1, 2, 0),
    Module(f"{HOME}/libzip.so", "0b", 2, 3, 0),
    Module("/opt/acme/libacmenative.so (deleted)", "0c", 3, 4, 0),
    Module("/lib/x86_64-linux-gnu/libc.so.6", "0d", 4, 5, 0),
    Module("/opt/acme/acmeserver", "0e", 5, 6, 0),
    Module("[vdso]", "", 6, 7, 0),
]
# A frame -> what stays of it; None: nothing.
FRAMES = {
    Frame("malloc", "native"): "malloc",
    Frame("acme_malloc", "native"): None,
    Frame("acme::Pool<Acme>::get(int)", "native", "libacmenative.so", "/home/acme/acmepool.cpp", 7): None,
    Frame("libacmenative.so+0x1234", "native", "libacmenative.so"): None,
    Frame("malloc", "native", "libacmenative.so"): None,
    Frame("__libc_start_main", "native", "libc.so.6", "/build/acme/libc-start.c", 3): "__libc_start_main",
    Frame("Arena::grow(unsigned long)", "jvm", "libjvm.so"): "Arena::grow(unsigned long)",
    Frame("Java_java_util_zip_Inflater_init", "native", "libzip.so"): "Java_java_util_zip_Inflater_init",
    Frame("java.util.zip.Inflater.init", "java", "", "Inflater.java", 9): "java.util.zip.Inflater.init",
    Frame("com.acme.Orders.place", "java", "", "AcmeOrders.java", 12): None,
    Frame("com.acme.Orders$$Lambda.run", "java"): None,
    Frame("java.util.List.of", "java", "acme.jar", "/acme/List.java"): "java.util.List.of",
    Frame("com.acme.Orders.lambda$acmeplace$0", "java", "", "AcmeOrders.java", 12): None,
    Frame("jdk.proxy2.$Proxy12.acmePlace", "java"): None,
    Frame("io.netty.buffer.PoolArena.allocate", "java", "", "PoolArena.java", 5): None,
    Frame("com.acme.Cart[]", "class", "com.acme.Cart"): None,
    Frame("byte[]", "class", "byte"): "byte[]",
    Frame("java.lang.String", "class", "java.lang.String"): "java.lang.String",
    Frame("0x7f00", "unknown"): "0x7f00",
    Frame("Java frames missing: deoptimizing (-9)", "unknown"): "Java frames missing: deoptimizing (-9)",
    Frame("acme says nothing", "unknown"): None,
}
# In no text of what comes out, in any case.
SECRETS = ("acme", "orders", "cart", "netty", "pool", "hunter2", "shop")


def everything(folder: Path) -> Path:
    """A recording with a text in each column that holds texts."""
    writer = RecordingWriter(folder)
    chains = {number: (frame,) for number, frame in enumerate(FRAMES)}
    writer.append_frames(chains, {number: (1 << 60) + number for number in chains})
    writer.append_stacks(stored.stacks(0, [], list(chains)))
    writer.replace_modules(MODULES)
    writer.replace_threads(["other threads", "acme-orders-7", "GC Thread#1", "C2 CompilerThre"])
    writer.replace_live(stored.live([1]))
    writer.append_rows("series", stored.series(1, 1, 100.0))
    writer.append_rows("process", stored.process(1))
    gauges = ("classes", "threads: acme-orders-#", "mapped: /srv/acme/index#", "allocator: jemalloc")
    writer.append_reading(1, {"malloc": 1.0, "Acme": 2.0}, dict.fromkeys((*gauges, "allocator: acme"), 1.0))
    writer.append_collections([("counted", 0.0, 0.0, 0), ("young", 1.0, 1.1, 1)])
    writer.replace_info(
        stored.info(
            main_class="com.acme.Shop",
            command_line=("java", "-Dacme=hunter2", "com.acme.Shop"),
            jvm_flags=("-Xmx1g", "-Dacme=1", "-XX:+UseZGC", "-agentpath:/opt/acme.so", "-XX:OnError=acme"),
            properties={"acme.name": "hunter2"},
            coverage=(
                "the process has no JVM: native frames only",
                "acmeserver, libacmenative.so, libzip.so: the file is gone",
                "the agent /opt/acme/agent.jar holds it (/srv/acme), see dumps/acme.1.heap",
            ),
        )
    )
    writer.finish()
    return folder


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Each text in a recording, with where it is."""
    for table, columns in {**APPENDED, **REPLACED}.items():
        place = folder / (f"{table}/*.parquet" if table in APPENDED else f"{table}.parquet")
        for column in (name for name, kind in columns.items() if kind == "VARCHAR"):
            if table in REPLACED or list((folder / table).glob("*.parquet")):
                for (text,) in duckdb.execute(f"SELECT DISTINCT {column} FROM '{place}'").fetchall():
                    yield f"{table}.{column}", text
    yield "meta.json", (folder / "meta.json").read_text()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return everything(tmp_path_factory.mktemp("everything") / "a.offheap")


def test_no_secret_is_left(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "b.offheap"
    assert main(["anonymize", str(source), "-o", str(output)]) == 0
    assert "the key is forgotten" in capsys.readouterr().out
    before, after = list(texts(source)), list(texts(output))
    assert {where for where, _ in before} == {where for where, _ in after}
    assert any("acme" in text for where, text in before if where == "gauges.gauge"), "the test has secrets"
    left = [(where, text) for where, text in after for word in SECRETS if word in text.lower()]
    assert left == []
    # By whatever way the bytes are written.
    for path in output.rglob("*"):
        assert not path.is_file() or b"acme" not in path.read_bytes().lower()


def test_what_stays_readable(source: Path) -> None:
    content = contents.read(source)
    anonymize(content, Hashes(KEY))
    frames = [content.chains[number][0] for number in range(len(FRAMES))]
    for (before, stays), after in zip(FRAMES.items(), frames, strict=True):
        assert (after.name == before.name) == (stays is not None), before
        assert (after.kind, after.line, after.inlined) == (before.kind, before.line, before.inlined)
        assert "/" not in after.file
    by_name = {before.name: after for before, after in zip(FRAMES, frames, strict=True)}
    assert by_name["libacmenative.so+0x1234"].name == f"{by_name['libacmenative.so+0x1234'].module}+0x1234"
    assert by_name["com.acme.Cart[]"].name == by_name["com.acme.Cart[]"].module + "[]"
    assert by_name["jdk.proxy2.$Proxy12.acmePlace"].name.startswith("jdk.proxy2.$Proxy12.x")
    assert by_name["com.acme.Orders.place"].file.endswith(".java")
    # Classes stay classes, and packages packages.
    place, run = (by_name[f"com.acme.Orders{rest}"].name for rest in (".place", "$$Lambda.run"))
    assert run.startswith(place.rpartition(".")[0] + "$$Lambda.")
    assert content.info.main_class.rpartition(".")[0] == place.rpartition(".")[0].rpartition(".")[0]
    assert content.info.jvm_flags == ("-Xmx1g", "-XX:+UseZGC")
    assert content.info.coverage[0] == "the process has no JVM: native frames only"
    assert "libzip.so: the file is gone" in content.info.coverage[1]
    paths = content.tables["modules"]["path"].tolist()
    assert (paths[0], paths[1], paths[3], paths[5]) == ("/libjvm.so", "/libzip.so", "/libc.so.6", "[vdso]")
    assert content.tables["modules"]["build_id"].tolist() == ["0a", "0b", "", "0d", "", ""]
    threads = content.tables["threads"]["name"].tolist()
    assert threads[0::2] + threads[3:] == ["other threads", "GC Thread#1", "C2 CompilerThre"]
    gauges = set(content.tables["gauges"]["gauge"].tolist())
    assert {"classes", "allocator: jemalloc", f"threads: {threads[1][:-2]}-#"} <= gauges
    # The address of a hashed function tells nobody which it is.
    hashed = [number for number, stays in enumerate(FRAMES.values()) if stays is None]
    assert all(content.raws[number] == 0 for number in hashed)


def test_packages_that_are_kept(source: Path) -> None:
    content = contents.read(source)
    anonymize(content, Hashes(KEY), ["io.netty"])
    names = {chain[0].name for chain in content.chains.values()}
    assert "io.netty.buffer.PoolArena.allocate" in names
    assert not any("acme" in name.lower() for name in names)


def stored_model(model: Recording, path: Path) -> None:
    """Writes a recording that is in memory."""
    java = model.java
    assert java
    rows = {name: np.concatenate((getattr(model, name), getattr(java, name))) for name in ("live", "series")}
    rows["series"] = rows["series"][np.argsort(rows["series"]["time"], kind="stable")]
    offsets = model.stack_offsets
    numbered = NumberedStacks(
        np.arange(len(model.stack_kinds), dtype=np.int64),
        model.stack_kinds,
        np.diff(offsets),
        model.stack_frames.astype(np.int64),
    )
    writer = RecordingWriter(path)
    chains = {number: (frame,) for number, frame in enumerate(model.frames)}
    writer.append_frames(chains, dict.fromkeys(chains, 0))
    writer.append_stacks(numbered)
    writer.replace_modules(model.modules)
    writer.replace_threads(model.threads)
    writer.replace_live(rows["live"])
    writer.append_rows("series", rows["series"])
    writer.append_rows("process", model.process)
    writer.append_heap(list(zip(model.heap.times.tolist(), model.heap.bytes.tolist(), strict=True)))
    writer.replace_info(dataclasses.replace(model.info, main_class="com.example.Main"))
    writer.finish()


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """healthy.offheap, leaking.offheap, and both under one key: a-healthy.offheap, a-leaking.offheap."""
    folder = tmp_path_factory.mktemp("shops")
    (folder / "key").write_bytes(KEY)
    (folder / "key").chmod(0o600)
    for name, leaks in (("healthy", False), ("leaking", True)):
        path = folder / f"{name}.offheap"
        stored_model(shop(leaks, leaks, 60.0), path)
        words = [
            "anonymize",
            str(path),
            "-o",
            str(folder / f"a-{name}.offheap"),
            "--key",
            str(folder / "key"),
        ]
        assert main(words) == 0
    return folder


@pytest.mark.parametrize("command", ["leaks", "diff"])
def test_the_answers_are_the_same(command: str, shops: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(prefix: str) -> tuple[object, str]:
        paths = [str(shops / f"{prefix}{name}.offheap") for name in ("healthy", "leaking")]
        capsys.readouterr()
        assert main([command, *(paths[1:] if command == "leaks" else paths), "--json"]) == 0
        out = capsys.readouterr().out
        document = json.loads(out)
        return document, out

    plain, _ = told("")
    hidden, text = told("a-")
    assert numbers(plain) == numbers(hidden)
    assert "com.example" not in text
    assert "java.util.zip.Inflater" in text


def numbers(value: object) -> object:
    """A document without its texts, but for those of verdicts and kinds."""
    if isinstance(value, dict):
        return {
            key: value[key] if key in ("verdict", "kind", "status") else numbers(value[key]) for key in value
        }
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return None if isinstance(value, str) else value


def test_a_report_can_be_made(shops: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(shops / "a-leaking.offheap"), "-o", str(page)]) == 0
    assert "com.example" not in page.read_text()


def test_a_key_makes_the_names(shops: Path, tmp_path: Path) -> None:
    def names(path: Path) -> set[str]:
        return {frame.name for frame in recording.load(path).frames}

    again = tmp_path / "again.offheap"
    source = str(shops / "leaking.offheap")
    assert main(["anonymize", source, "-o", str(again), "--key", str(shops / "key")]) == 0
    assert names(again) == names(shops / "a-leaking.offheap")
    other = tmp_path / "other.offheap"
    assert main(["anonymize", source, "-o", str(other)]) == 0
    public = names(again) & names(Path(source))
    assert names(other) & names(again) == public


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"x" * 15, 0o600, "has 15 bytes"),
        (b"x" * 16, 0o640, "other users may read"),
        (b"x" * 5000, 0o600, "larger than 4096 bytes"),
        (None, 0o600, "cannot be read"),
    ],
)
def test_keys_that_are_refused(content: bytes | None, mode: int, why: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    if content is not None:
        key.write_bytes(content)
        os.chmod(key, mode)
    with pytest.raises(UserError, match=why):
        key_of(key)


def test_a_library_that_only_has_a_name_of_the_jdk() -> None:
    public = PublicModules([*MODULES, Module("/opt/acme/libnet.so", "", 8, 9, 0)])
    assert public.has("libzip.so")
    assert not public.has("libnet.so")
    both = PublicModules([*MODULES, Module("/opt/acme/libzip.so", "", 8, 9, 0)])
    assert not both.has("libzip.so")


@pytest.mark.parametrize("name", ["GC Thread#0", "C1 CompilerThread0", "VM Periodic Tas", "ZWorkerYoung#3"])
def test_threads_of_the_jvm(name: str) -> None:
    assert is_vm_thread(name)
    assert not is_vm_thread(name + " acme")


def test_flags_without_texts() -> None:
    flags = (
        "-XX:MaxRAMPercentage=75.0",
        "-Xss512k",
        "-XX:HeapDumpPath=/acme",
        "-XX:Flags=acme",
        "-cp",
        "acme",
    )
    assert public_flags(flags) == flags[:2]


def test_a_new_column_of_texts_does_not_pass(source: Path) -> None:
    """GIVEN a table that anonymize does not know THEN it refuses."""
    content = contents.read(source)
    content.tables["frames"] = {"name": np.array(["acme"], object)}
    with pytest.raises(ValueError, match=r"frames\.name has texts"):
        anonymize(content, Hashes(KEY))


def test_info_has_no_text_that_is_not_known() -> None:
    """A new field of Info with texts must be added to _Names.info, or to those that are harmless."""
    harmless = {
        "path",
        "java_version",
        "probe_version",
        "mode",
        "ended",
        "entry",
        "lost",
        "application",
        "imported",
    }
    changed = {"main_class", "command_line", "jvm_flags", "properties", "coverage"}
    types = {field.name: str(field.type) for field in dataclasses.fields(Info)}
    with_texts = {name for name, kind in types.items() if "str" in kind or "Literal" in kind}
    assert with_texts == harmless | changed
