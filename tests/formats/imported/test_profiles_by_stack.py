"""pprof's messages and collapsed stacks, as Go and async-profiler wrote them."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.recordings.imported_profiles import SAMPLES, check, held_by, last, stacks_of
from harness.recordings.java_beside_native import shop
from offheap.errors import UserError
from offheap.formats import pprof_schema
from offheap.formats.exported.content.samples import samples
from offheap.formats.exported.formats import FORMATS
from offheap.formats.imported import formats, source
from offheap.formats.imported.samples import collapsed, heap_text, names, pprof, pprof_message
from offheap.recording.model import MALLOC, MMAP, Frame, Recording

GO = SAMPLES / "go.pb.gz"
JAVA = SAMPLES / "async-profiler.pb.gz"
COLLAPSED = SAMPLES / "async-profiler.collapsed"


def test_go_heap_profile() -> None:
    """GIVEN 50 blocks kept and 50 of another function freed THEN the first are live, both are allocated."""
    profile = check(pprof.read([GO]))
    blocks, size = held_by(profile, "main.leak")
    assert 50 <= blocks <= 52  # and the slice that holds them
    assert 50 * 10_240 <= size <= 53 * 10_240
    assert held_by(profile, "main.churn")[0] <= 1
    ((number, frames),) = stacks_of(profile, "main.churn")
    assert frames[0].module == "heap"
    assert frames[0].file.endswith("heap.go")
    assert profile.series[profile.series["stack"] == number]["allocated_blocks"] >= 50
    assert profile.start > 1_700_000_000
    assert any(module.path.endswith("heap") and module.start < module.end for module in profile.modules)


def test_java_names_of_async_profiler() -> None:
    """GIVEN async-profiler's own converter THEN Inflater.init is a Java frame, below the native ones."""
    for profile in (check(pprof.read([JAVA])), check(collapsed.read([COLLAPSED]))):
        _, size = held_by(profile, "java.util.zip.Inflater.init")
        assert size > 50 * 6000
        _, frames = max(stacks_of(profile, "java.util.zip.Inflater.init"), key=lambda found: len(found[1]))
        kinds = {frame.name: frame.kind for frame in frames}
        assert kinds["java.util.zip.Inflater.init"] == "java"
        assert kinds["Forget.main"] in ("java", "native")  # a class without a package has no mark in pprof


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("java/util/zip/Inflater.init", Frame("java.util.zip.Inflater.init", "java")),
        ("java/util/zip/Inflater.init_[j]", Frame("java.util.zip.Inflater.init", "java")),
        ("java.util.zip.Inflater.<init>_[i]", Frame("java.util.zip.Inflater.<init>", "java", inlined=True)),
        ("java.util.zip.Inflater.end()V", Frame("java.util.zip.Inflater.end", "java")),
        ("Forget$$Lambda.0x00007f1234.run_[0]", Frame("Forget$$Lambda.run", "java")),
        ("Main$$Lambda$14/566891196.run", Frame("Main$$Lambda.run", "java")),
        (
            "java/lang/invoke/LambdaForm$MH+0x00007f12.invoke",
            Frame("java.lang.invoke.LambdaForm$MH.invoke", "java"),
        ),
        ("Forget.main_[0]", Frame("Forget.main", "java")),
        ("Java_java_util_zip_Inflater_init", Frame("Java_java_util_zip_Inflater_init", "native")),
        ("libz.so.1.2.13+0x1234", Frame("libz.so.1.2.13+0x1234", "native", "libz.so.1.2.13")),
        ("std::vector<int>::push_back(int)", Frame("std::vector<int>::push_back(int)", "native")),
        ("_ZN3foo3barEv", Frame("foo::bar()", "native")),
        ("do_syscall_64_[k]", Frame("do_syscall_64", "kernel")),
        ("main.leak", Frame("main.leak", "native")),
        ("runtime.mallocgc", Frame("runtime.mallocgc", "native")),
        ("  ", Frame("unknown function", "native")),
    ],
)
def test_names(name: str, frame: Frame) -> None:
    assert names.frame(name) == frame


def message(**types: int) -> Any:
    """A profile of one stack f <- g with a value for each type."""
    made = pprof_schema.profile_class()()
    strings = ["", "bytes", "count", "f", "g", "f.c", *types]
    made.string_table.extend(text.encode() for text in strings)
    for name in types:
        unit = "count" if "objects" in name or "count" in name else "bytes"
        made.sample_type.add(type=strings.index(name), unit=strings.index(unit))
    made.function.add(id=1, name=3, filename=5)
    made.function.add(id=2, name=4)
    made.location.add(id=1).line.add(function_id=1, line=7)
    made.location[0].line.add(function_id=2)
    made.sample.add(location_id=[1], value=list(types.values()))
    return made


def stored(made: Any, folder: Path) -> Path:
    path = folder / "profile.pb"
    path.write_bytes(made.SerializeToString())
    return path


def test_inlined_functions_and_all_values(tmp_path: Path) -> None:
    made = message(alloc_objects=9, alloc_space=900, inuse_objects=3, inuse_space=310)
    profile = check(pprof.read([stored(made, tmp_path)]))
    assert profile.frames == [Frame("f", "native", file="f.c", line=7, inlined=True), Frame("g", "native")]
    row = profile.series[0]
    assert [row[name] for name in ("live_blocks", "live_bytes", "allocated_blocks", "allocated_bytes")] == [
        3,
        310,
        9,
        900,
    ]
    assert sorted(profile.live["size"].tolist()) == [103, 103, 104]


def shop_with_a_mapping() -> Recording:
    """The shop, whose inflaters are mappings, and three threads that hold a part of each stack."""
    recording = shop()
    kinds = recording.stack_kinds.copy()
    kinds[1] = MMAP
    live = recording.live.copy()
    live["thread"] = np.arange(len(live)) % 3
    return replace(
        recording, stack_kinds=kinds, live=live, threads=["other threads", "cart-1", "cart-2", "gc"]
    )


def test_kinds_and_threads_come_back(tmp_path: Path) -> None:
    """GIVEN a recording as pprof WHEN it is imported THEN each stack has its kind, each byte its thread."""
    exported = samples(shop_with_a_mapping())
    path = tmp_path / "shop.pb.gz"
    path.write_bytes(FORMATS["pprof"].write(exported.recording, "both", "inuse_space"))
    there: Counter[tuple[tuple[str, ...], int, str]] = Counter()
    for place, part in exported.parts():
        kind = MMAP if exported.kind(place) == "mmap" else MALLOC
        stack = tuple(frame.name for frame in exported.frames(place))
        there[stack, kind, part.thread or "other threads"] += part.values[0]
    profile = check(pprof.read([path]))
    here: Counter[tuple[tuple[str, ...], int, str]] = Counter()
    for row in profile.live:
        number, thread = int(row["stack"]) - 1, profile.threads[row["thread"]]
        stack = tuple(profile.frames[place].name for place in profile.stacks[number])
        here[stack, int(profile.kinds[number]), thread] += int(row["size"])
    assert here == +there
    assert {kind for _, kind, _ in here} == {MALLOC, MMAP}
    assert {thread for _, _, thread in here} == {"other threads", "cart-1", "cart-2", "gc"}
    assert pprof.JAVA_AS_BLOCKS in profile.lacks
    assert pprof.NO_THREADS not in profile.lacks


def test_a_profile_without_threads_says_so() -> None:
    profile = pprof.read([GO])
    assert profile.threads == ["other threads"]
    assert pprof.NO_THREADS in profile.lacks
    assert pprof.JAVA_AS_BLOCKS not in profile.lacks


@pytest.mark.parametrize(
    ("blocks", "size", "allocated_blocks", "allocated_size"),
    [
        ("inuse-objects", "inuse-space", "alloc-objects", "alloc-space"),
        ("inuse_count", "inuse_bytes", "alloc_count", "alloc_bytes"),
        ("objects", "space", "allocated_objects", "allocated_bytes"),
        ("live_objects", "live_bytes", "alloc_objects", "alloc_space"),
    ],
)
def test_the_names_of_other_producers(
    blocks: str, size: str, allocated_blocks: str, allocated_size: str, tmp_path: Path
) -> None:
    made = message(**{allocated_blocks: 9, allocated_size: 900, "other": 77, blocks: 3, size: 310})
    profile = check(pprof.read([stored(made, tmp_path)]))
    row = profile.series[0]
    columns = ("live_blocks", "live_bytes", "allocated_blocks", "allocated_bytes")
    assert [float(row[column]) for column in columns] == [3, 310, 9, 900]
    assert not {pprof.ALLOCATED_ONLY, pprof.NO_ALLOCATED, pprof.NO_COUNT} & set(profile.lacks)


def test_allocations_alone_are_said_to_be_so(tmp_path: Path) -> None:
    profile = check(pprof.read([stored(message(alloc_objects=9, alloc_space=900), tmp_path)]))
    assert pprof.ALLOCATED_ONLY in profile.lacks


def test_a_series_by_its_own_times(tmp_path: Path) -> None:
    """GIVEN profiles in the wrong order with times of their own THEN the times order them."""
    paths = []
    for number, size in ((2, 300), (0, 100), (1, 200)):
        made = message(inuse_space=size)
        made.time_nanos = (1_700_000_000 + 30 * number) * 10**9
        (tmp_path / str(number)).mkdir()
        paths.append(stored(made, tmp_path / str(number)))
    profile = check(pprof.read(paths))
    assert profile.process["time"].tolist() == [0, 30, 60]
    assert profile.process["live_bytes"].tolist() == [100, 200, 300]


def fault(made: Any, folder: Path) -> str:
    """What the error says after the file's name."""
    path = stored(made, folder)
    with pytest.raises(UserError) as error:
        pprof.read([path])
    return error.value.what.removeprefix(str(path))


def test_a_profile_of_something_else_is_named(tmp_path: Path) -> None:
    said = fault(message(samples=1, cpu=2), tmp_path)
    assert said == " is not a profile of memory: its values are samples, cpu"


# Changes of a profile, the field that then has a fault, its place among those of its name, and the fault.
FAULTS: list[tuple[Callable[[Any], object], str, int, str]] = [
    (lambda made: made.sample[1].location_id.append(9), "sample", 1, "location 9 is not in the file"),
    (lambda made: made.sample[1].value.append(1), "sample", 1, "2 values for 1 sample types"),
    (lambda made: setattr(made.function[1], "name", 99), "function", 1, "string 99 is not one of 7"),
    (lambda made: setattr(made.function[1], "filename", -1), "function", 1, "string -1 is not one of 7"),
    (lambda made: setattr(made.sample_type[0], "unit", 99), "sample_type", 0, "string 99 is not one of 7"),
    (lambda made: made.mapping.add(memory_limit=1, build_id=99), "mapping", 0, "string 99 is not one of 7"),
    (
        lambda made: setattr(made.location[1].line[0], "function_id", 8),
        "location",
        1,
        "function 8 is not in the file",
    ),
]


def three_samples() -> Any:
    """The first and the last of one stack, and one of another."""
    made = message(inuse_space=5)
    made.location.add(id=2).line.add(function_id=2)
    made.sample.add(location_id=[2], value=[7])
    made.sample.add(location_id=[1], value=[6])
    return made


@pytest.mark.parametrize(("change", "field", "number", "what"), FAULTS)
def test_damage_of_a_profile_has_its_place(
    change: Callable[[Any], object], field: str, number: int, what: str, tmp_path: Path
) -> None:
    made = three_samples()
    change(made)
    ((place, said),) = re.findall(r"^, byte 0x([0-9a-f]+): (.*)$", fault(made, tmp_path))
    assert said == f"{field} {number}: {what}"
    data = (tmp_path / "profile.pb").read_bytes()
    its = getattr(made, field)[number].SerializeToString()
    tag = made.DESCRIPTOR.fields_by_name[field].number << 3 | 2
    assert data[int(place, 16) :].startswith(bytes([tag, len(its)]) + its)


@pytest.mark.parametrize(
    ("values", "number"), [((5, 7, -6), 2), ((1 << 56, 7, 6), 2), ((-5, 7, 4), 0), ((5, -7, 6), 1)]
)
def test_an_impossible_amount_has_the_sample_that_makes_it_so(
    values: tuple[int, ...], number: int, tmp_path: Path
) -> None:
    """GIVEN a stack of the first and the last sample, and one of the other."""
    made = three_samples()
    for sample, value in zip(made.sample, values, strict=True):
        sample.value[0] = value
    ((place, said),) = re.findall(r"^, byte 0x([0-9a-f]+): (.*)$", fault(made, tmp_path))
    assert said == f"sample {number}: its stack has a negative or impossible amount: is it a difference?"
    data = (tmp_path / "profile.pb").read_bytes()
    assert data[int(place, 16) + 2 :].startswith(made.sample[number].SerializeToString())


def test_samples_that_make_up_for_each_other(tmp_path: Path) -> None:
    made = three_samples()
    made.sample[0].value[0], made.sample[2].value[0] = -5, 8
    assert sorted(size for _, size in last(check(pprof.read([stored(made, tmp_path)]))).values()) == [3, 7]


def test_places_in_a_message_with_fields_that_no_profile_has(tmp_path: Path) -> None:
    """GIVEN a field of 8 bytes, one of 4 and an integer in front, whose contents look like strings."""
    for front in (b"\xa1\x06" + 4 * b"\x32\x00", b"\xa5\x06" + 2 * b"\x32\x00", b"\xa0\x06\x85\x01"):
        data, at = front + b"\x32\x01a\x32\x00", len(front)
        assert [pprof_message.place_of(data, "string_table", number) for number in range(3)] == [
            at,
            at + 3,
            len(data),
        ]
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(UserError, match=f"byte {at:#x}: the string_table does not begin with the empty"):
            pprof.read([tmp_path / "a"])


def test_a_profile_tells_the_field_that_its_end_cuts_off(tmp_path: Path) -> None:
    path = stored(message(inuse_space=5), tmp_path)
    data = path.read_bytes()
    path.write_bytes(data + b"\x32\x05ab")
    with pytest.raises(UserError, match=f"byte {len(data):#x} of {len(data) + 4:#x}: not a pprof profile"):
        pprof.read([path])
    path.write_bytes(b"")
    with pytest.raises(UserError, match="byte 0x0: the file ends before its string_table"):
        pprof.read([path])


def test_collapsed_values_add_up(tmp_path: Path) -> None:
    path = tmp_path / "stacks"
    path.write_text("a;b 10\na;c 5\n\na;b 1.5\n")
    profile = check(collapsed.read([path]))
    assert held_by(profile, "b") == (1, 11.5)
    assert [profile.frames[place].name for place in profile.stacks[0]] == ["b", "a"]
    path.write_text("a;b 10\nno value here\n")
    with pytest.raises(UserError, match="line 2: not a stack and a value"):
        collapsed.read([path])


def test_who_recognises_which_sample() -> None:
    from offheap.formats.imported.events import heaptrack, mtrace
    from offheap.formats.imported.jfr import recording
    from offheap.formats.imported.reports import (
        malloc_trace,
        massif,
        memcheck,
        native_memory_tracking,
        sanitizer,
    )

    readers = [
        heap_text,
        mtrace,
        heaptrack,
        pprof,
        collapsed,
        massif,
        memcheck,
        sanitizer,
        native_memory_tracking,
        malloc_trace,
        recording,
    ]
    files = [path for path in SAMPLES.iterdir() if path.is_file() and path.name != "README.md"]
    assert len(files) >= 14
    for path in files:
        head = source.plain(path.read_bytes()[: source.HEAD])
        assert len([one for one in readers if one.recognises(head)]) == 1, path
    for head in (
        b"",
        b"\0" * 100,
        Path("/bin/sh").read_bytes()[: 64 << 10],
        source.plain(gzip.compress(b"text")),
        b"{}\n",
        b"a b 1\n",
    ):
        assert [one.FORMAT for one in readers if one.recognises(head)] == [], head[:20]


@pytest.mark.parametrize(
    "sample", ["mtrace.log", "massif.out", "memcheck.txt", "memcheck.xml", "lsan.txt", "nmt-25-summary.txt",
               "malloctrace.txt", "async-profiler.collapsed", "jemalloc.heap", "gperftools.heap"]
)  # fmt: skip
def test_a_gzipped_file_reads_as_the_plain_one(sample: str, tmp_path: Path) -> None:
    """GIVEN a log as an archive keeps it WHEN it is imported without --format."""
    gzipped = tmp_path / "archived"
    gzipped.write_bytes(gzip.compress((SAMPLES / sample).read_bytes()))
    expected, found = (formats.read([path], None, None, None) for path in (SAMPLES / sample, gzipped))
    assert found.series["live_bytes"].tolist() == expected.series["live_bytes"].tolist() != []
    assert found.frames == expected.frames
