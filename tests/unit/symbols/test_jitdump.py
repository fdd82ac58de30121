"""Jitdumps of either byte order, and damaged ones."""

from __future__ import annotations

import contextlib
import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.recordings.imported_profiles import SAMPLES, check, held_by
from offheap.errors import UserError
from offheap.formats.imported import formats
from offheap.symbols.generated.generated_code import Code, GeneratedCode


def jitdump(*methods: tuple[int, int, str], order: str = "<") -> bytes:
    magic = b"DTiJ" if order == "<" else b"JiTD"
    data = struct.pack(order + "4sIIIIIQQ", magic, 1, 40, 62, 0, 7, 0, 0)
    for number, (start, size, name) in enumerate(methods):
        body = (
            struct.pack(order + "IIQQQQ", 7, 7, start, start, size, number)
            + name.encode()
            + b"\0"
            + bytes(size)
        )
        data += struct.pack(order + "IIQ", 0, 16 + len(body), number) + body
    return data


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_jitdump_names_java_methods(tmp_path: Path, order: str) -> None:
    path = tmp_path / "jit-7.dump"
    content = jitdump(
        (0x2000, 16, "Ljava/util/zip/Inflater;init(Z)J"), (0x1000, 8, "Interpreter"), order=order
    )
    moved = struct.pack(order + "IIQQQQQ", 7, 7, 0x3000, 0x2000, 0x3000, 16, 0)
    path.write_bytes(content + struct.pack(order + "IIQ", 1, 16 + len(moved), 9) + moved)
    names = GeneratedCode(path)
    assert len(names) == 2
    assert names.at(0x1007) == Code("Interpreter", False)
    assert names.at(0x300F) == Code("java.util.zip.Inflater.init", True)
    assert names.at(0x2000) is None


@pytest.mark.parametrize("name", ["jit-7.dump", "names.dump"])
def test_an_import_takes_the_java_names_of_a_jitdump(tmp_path: Path, name: str) -> None:
    """GIVEN a heap dump of PID 7 WHEN jit-7.dump lies beside it, or --perf-map names a jitdump."""
    dump, names = tmp_path / "jeprof.7.0.f.heap", tmp_path / name
    stack = "@ 0x5008 0x2009 0x1004\n  t*: 1: 100 [0: 0]\n"
    dump.write_text(f"heap_v2/1\n  t*: 1: 100 [0: 0]\n{stack}\nMAPPED_LIBRARIES:\n")
    names.write_bytes(jitdump((0x2000, 16, "Ljava/util/zip/Inflater;init(Z)J"), (0x1000, 8, "Interpreter")))
    profile = check(formats.read([dump], None, None, None if name == "jit-7.dump" else names))
    frames = [(profile.frames[place].name, profile.frames[place].kind) for place in profile.stacks[0]]
    assert frames == [("0x5008", "unknown"), ("java.util.zip.Inflater.init", "java"), ("Interpreter", "jvm")]
    assert any(f"names of {name}" in sentence for sentence in profile.lacks)


def test_the_jitdump_of_perf_s_own_agent(tmp_path: Path) -> None:
    """GIVEN jemalloc's dump of a JVM that kept 60 Inflaters WHEN libperf-jvmti.so's jitdump lies beside."""
    for sample in (SAMPLES / "jitdump").iterdir():
        (tmp_path / sample.stem).write_bytes(gzip.decompress(sample.read_bytes()))
    profile = check(formats.read([tmp_path / "jeprof.31432.0.f.heap"], None, None, None))
    _, held = held_by(profile, "java.util.zip.Inflater.init")
    assert held == pytest.approx(429_600, rel=0.15)  # a sample each 4 KiB
    assert "java" in {frame.kind for frame in profile.frames if frame.name.startswith("java.util.zip.")}


def test_a_damaged_jitdump_is_told_or_read_so_far(tmp_path: Path) -> None:
    path = tmp_path / "jit-7.dump"
    content = jitdump((0x1000, 8, "a"), (0x2000, 8, "b"))
    for end in range(4, len(content)):
        path.write_bytes(content[:end])
        if end < 40:
            with pytest.raises(UserError, match="byte 0x0: the file ends within its header"):
                GeneratedCode(path)
        else:
            assert len(GeneratedCode(path)) <= 2
    path.write_bytes(content[:40] + struct.pack("<IIQ", 0, 3, 0))
    with pytest.raises(UserError, match="byte 0x28: a record of 3 bytes"):
        GeneratedCode(path)
    path.write_bytes(content[:40] + struct.pack("<IIQ", 0, 24, 0) + bytes(8))
    with pytest.raises(UserError, match="byte 0x28: a record does not hold its fields"):
        GeneratedCode(path)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.dump"
    for head in (b"JiTD", jitdump()):
        path.write_bytes(head + data)
        with contextlib.suppress(UserError):
            GeneratedCode(path).at(1 << 47)
