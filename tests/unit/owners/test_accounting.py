"""The attribution of RSS: claims, cuts, shapes, and sums that must be exact."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.paths import DATA
from offheap.analysis.owners import accounting, mapping_shapes
from offheap.analysis.owners.accounting import Evidence, Piece
from offheap.analysis.owners.accounts import Holding, MappedSpace
from offheap.analysis.owners.claims import Claims, Range
from offheap.jvm.structures.direct_memory import DirectMemory
from offheap.jvm.texts import nmt, system_map, vm_info
from offheap.jvm.texts.vm_info import MetaspaceUsage, Usage
from offheap.proc import smaps
from offheap.proc.maps import Mapping
from offheap.proc.pagemap import Present
from offheap.proc.smaps import Memory, SmapsEntry
from offheap.proc.threads import Thread

KIB, MIB = 1 << 10, 1 << 20
BASE = 0x7F0000000000


def row(
    start: int, size: int, permissions: str = "rw-p", path: str = "", flags: str = "", rss: int = -1
) -> SmapsEntry:
    resident = (size if permissions.startswith("r") else 0) if rss < 0 else rss
    mapping = Mapping(start, start + size, permissions, 0, "00:00", 7 if path else 0, path, False)
    return SmapsEntry(mapping, Memory(rss=resident), frozenset(flags.split()))


ranges = st.lists(
    st.builds(
        lambda start, size, name: Range(start, start + size, "malloc", name),
        st.integers(0, 60),
        st.integers(1, 20),
        st.text("abc", min_size=1, max_size=1),
    ),
    max_size=12,
)


@given(ranges, st.integers(0, 60), st.integers(1, 40))
def test_the_first_claim_has_an_address(wanted: list[Range], start: int, size: int) -> None:
    claims = Claims(wanted)
    pieces = list(claims.cut(start, start + size))
    assert [piece[0] for piece in pieces] == [start, *(piece[1] for piece in pieces[:-1])]
    assert pieces[-1][1] == start + size
    for low, high, holder in pieces:
        for address in range(low, high):
            first = next((r for r in wanted if r.start <= address < r.end), None)
            assert (holder.name if holder else None) == (first.name if first else None)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1 << 34),
            st.lists(
                st.builds(Present, st.integers(0, 1 << 20), st.integers(0, 1 << 20)), min_size=1, max_size=6
            ),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_pieces_sum_to_the_rss_of_their_row(given_rows: list[tuple[int, list[Present]]]) -> None:
    rows: list[SmapsEntry] = []
    pieces: list[Piece] = []
    present: dict[int, Present] = {}
    for number, (rss, pages) in enumerate(given_rows):
        start = BASE + number * MIB
        rows.append(row(start, 4096 * len(pages), rss=rss))
        for offset, count in enumerate(pages):
            present[len(pieces)] = count
            at = start + offset * 4096
            pieces.append(Piece(number, at, at + 4096, None, ""))
    measured = accounting.sizes(rows, pieces, present)
    assert min(measured) >= 0
    for number, (rss, _) in enumerate(given_rows):
        assert sum(size for size, piece in zip(measured, pieces, strict=True) if piece.row == number) == rss


def test_shares_follow_the_pages() -> None:
    rows = [row(BASE, 4 * MIB, rss=3 * MIB)]
    pieces = [Piece(0, BASE, BASE + MIB, None, ""), Piece(0, BASE + MIB, BASE + 4 * MIB, None, "")]
    present = {0: Present(256, 0), 1: Present(512, 0)}
    assert accounting.sizes(rows, pieces, present) == [MIB, 2 * MIB]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (Present(256, 0), Present(0, 768), [MIB, 0]),  # zeros: the row has no more pages than the left piece
        (Present(0, 256), Present(0, 768), [MIB // 4, 3 * MIB // 4]),  # no evidence decides: by their numbers
        (Present(128, 0), Present(0, 128), [MIB // 2, MIB // 2]),  # a forked child's zeros, which count
        (Present(128, 128), Present(64, 384), [MIB // 2 + MIB // 16, MIB // 2 - MIB // 16]),
        (Present(300, 0), Present(100, 9), [3 * MIB // 4, MIB // 4]),  # more pages since RSS was read
    ],
)
def test_zeros_that_were_only_read_are_nobodys(left: Present, right: Present, expected: list[int]) -> None:
    rows = [row(BASE, 4 * MIB, rss=MIB)]
    pieces = [Piece(0, BASE, BASE + MIB, None, ""), Piece(0, BASE + MIB, BASE + 4 * MIB, None, "")]
    assert accounting.sizes(rows, pieces, {0: left, 1: right}) == expected


def test_arenas_are_told_by_alignment_and_flag() -> None:
    arena = 0x7F0004000000
    rows = [
        row(arena, 3 * MIB, flags="nr"),
        row(arena + 3 * MIB, 61 * MIB, "---p", flags="nr"),
        row(arena + 64 * MIB, MIB),  # the same place, but committed by the JVM
        row(arena + 130 * MIB, MIB, flags="nr"),
    ]
    (found,) = mapping_shapes.arenas(rows)
    assert (found.start, found.end) == (arena, arena + 3 * MIB)


def test_arenas_of_glibc_2_43_have_no_flag() -> None:
    arena = 0x7F0004000000
    rows = [
        row(arena, 3 * MIB, rss=MIB),
        row(arena + 3 * MIB, 61 * MIB, "---p"),
        row(arena + 64 * MIB, MIB, rss=MIB),  # the same place, but committed by the JVM
        row(arena + 128 * MIB, MIB, rss=0),  # never touched
        row(arena + 192 * MIB, 3 * MIB, rss=MIB, flags="nr"),
    ]
    assert mapping_shapes.unflagged(rows) == [arena, arena + 64 * MIB]
    found = mapping_shapes.arenas(rows, [arena])
    assert [one.start for one in found] == [arena, arena + 192 * MIB]


def test_full_arenas_that_the_kernel_merged() -> None:
    arena = 0x7F0004000000
    found = mapping_shapes.arenas([row(arena - 8 * KIB, 100 * MIB, flags="nr")])
    assert [(one.start, one.end - one.start) for one in found] == [
        (arena, 64 * MIB),
        (arena + 64 * MIB, 36 * MIB - 8 * KIB),
    ]


def test_stacks_by_pointer_and_by_shape() -> None:
    rows = [
        row(BASE, 16 * KIB, "---p"),
        row(BASE + 16 * KIB, MIB - 16 * KIB, flags="nh"),
        row(BASE + MIB, 16 * KIB, "---p"),
        row(BASE + MIB + 16 * KIB, MIB - 16 * KIB),  # as large as the known one: a kernel before 6.7
        row(BASE + 2 * MIB, 16 * KIB, "---p"),
        row(BASE + 2 * MIB + 16 * KIB, 5 * MIB),  # another size, no mark
    ]
    known = mapping_shapes.stacks(
        rows, [Thread(1, "one", BASE + MIB - 64), Thread(2, "two", None), Thread(3, "gone", 64)]
    )
    assert known == [Range(BASE + 16 * KIB, BASE + MIB, "thread-stacks", "one")]
    assert {found.start for found in mapping_shapes.other_stacks(rows, known, "?")} == {
        BASE + 16 * KIB,
        BASE + MIB + 16 * KIB,
    }


def test_a_stack_merged_with_what_lies_above_is_cut() -> None:
    rows = [row(BASE, 512 * MIB)]
    (found,) = mapping_shapes.stacks(rows, [Thread(1, "one", BASE + MIB)])
    assert found.end == BASE + 9 * MIB


def usage(non_class: tuple[int, int], class_space: tuple[int, int]) -> MetaspaceUsage:
    (committed, reserved), (class_committed, class_reserved) = non_class, class_space
    return MetaspaceUsage(
        Usage(0, committed + class_committed, reserved + class_reserved),
        Usage(0, class_committed, class_reserved),
    )


def test_metaspace_of_two_nodes_with_holes() -> None:
    first, second = BASE, BASE + 256 * MIB
    rows = [
        row(first, 60 * MIB),
        row(first + 60 * MIB, 4 * MIB, "---p"),
        row(BASE + 128 * MIB, 40 * MIB),  # the same shape, another size
        row(BASE + 168 * MIB, 24 * MIB, "---p"),
        row(second, 3 * MIB),
        row(second + 3 * MIB, MIB, "---p"),
        row(second + 4 * MIB, 2 * MIB),
        row(second + 6 * MIB, 58 * MIB, "---p"),
    ]
    wanted = usage((65 * MIB, 128 * MIB), (MIB, 1024 * MIB))
    found = mapping_shapes.metaspace(rows, Claims(), wanted)
    assert [(one.start, one.end) for one in found] == [(first, first + 64 * MIB), (second, second + 64 * MIB)]
    assert mapping_shapes.metaspace(rows, Claims(), usage((80 * MIB, 128 * MIB), (MIB, 1024 * MIB))) == []


def test_metaspace_merged_with_blocks_below_is_found_from_its_end() -> None:
    rows = [row(BASE, 12 * MIB), row(BASE + 12 * MIB, 3 * MIB, "---p")]
    (found,) = mapping_shapes.metaspace(rows, Claims(), usage((5 * MIB, 8 * MIB), (MIB, 1024 * MIB)))
    assert (found.start, found.end) == (BASE + 7 * MIB, BASE + 15 * MIB)


def test_class_space_behind_a_heap_of_known_end() -> None:
    rows = [row(BASE, 129 * MIB), row(BASE + 129 * MIB, 1023 * MIB, "---p")]
    claims = Claims([Range(BASE, BASE + 128 * MIB, "java-heap", "heap")])
    (found,) = mapping_shapes.class_space(rows, claims, usage((5 * MIB, 8 * MIB), (MIB, 1024 * MIB)))
    assert (found.start, found.end) == (BASE + 128 * MIB, BASE + 1152 * MIB)


@pytest.mark.parametrize(
    ("path", "permissions", "owner"),
    [
        ("/opt/jdk/lib/server/classes.jsa", "rw-p", "cds"),
        ("/opt/jdk/lib/modules", "r--s", "jars"),
        ("/srv/app/shop-1.2.jar", "r--s", "jars"),
        ("/usr/lib/libz.so.1.2.13", "r--p", "shared-libraries"),
        ("/usr/bin/java", "r-xp", "shared-libraries"),
        ("/tmp/hsperfdata_app/17", "rw-s", "jvm-other"),
        ("/srv/app/index.dat", "rw-s", "mapped-files"),
        ("/SYSV00000000", "rw-s", "mapped-files"),
        ("/memfd:java_heap", "rw-s", "java-heap"),
        ("/memfd:video", "rw-s", "mapped-files"),
        ("[heap]", "rw-p", "malloc"),
        ("[stack]", "rw-p", "thread-stacks"),
        ("[vdso]", "r-xp", "kernel"),
        ("[anon: glibc: malloc arena]", "rw-p", "malloc"),
        ("[anon: glibc: pthread stack: 17]", "rw-p", "thread-stacks"),
        ("[anon:pool]", "rw-p", "anonymous"),
        ("", "rw-p", None),
    ],
)
def test_owners_by_name(path: str, permissions: str, owner: str | None) -> None:
    (piece,) = accounting.divide([row(BASE, MIB, permissions, path)], Claims())
    assert piece.owner == owner


def tracked(**malloc: int) -> nmt.Report:
    names = {"Other": "Other", "GC": "GC"}
    categories = {names[key]: nmt.Category(names[key], malloc=size) for key, size in malloc.items()}
    return nmt.Report(0, 0, categories)


@pytest.mark.parametrize(
    ("direct", "collector", "expected"),
    [
        (10, 5, {"direct-buffers": 10, "jvm-malloc": 5, "malloc": 85}),
        (0, 0, {"malloc": 100}),
        (90, 30, {"direct-buffers": 90, "jvm-malloc": 10}),  # counted, but partly untouched
        (130, 30, {"direct-buffers": 100}),
    ],
)
def test_malloc_is_split_by_what_is_counted(direct: int, collector: int, expected: dict[str, int]) -> None:
    rows = [row(BASE, 100 * MIB, path="[heap]")]
    evidence = Evidence(rows, nmt=tracked(Other=direct * MIB, GC=collector * MIB))
    holdings, unattributed = accounting.account(evidence, accounting.divide(rows, Claims()), [100 * MIB])
    assert {holding.owner: holding.bytes // MIB for holding in holdings} == expected
    assert all(holding.counted for holding in holdings)
    assert not unattributed


@pytest.mark.parametrize(
    ("direct", "expected"),
    [
        (30, {"direct-buffers": 30, "malloc": 70}),
        (0, {"malloc": 100}),
        (130, {"direct-buffers": 100}),
    ],
)
def test_direct_buffers_without_native_memory_tracking(direct: int, expected: dict[str, int]) -> None:
    rows = [row(BASE, 100 * MIB, path="[heap]")]
    evidence = Evidence(rows, direct=DirectMemory(direct * MIB, direct * MIB, direct))
    holdings, unattributed = accounting.account(evidence, accounting.divide(rows, Claims()), [100 * MIB])
    assert {holding.owner: holding.bytes // MIB for holding in holdings} == expected
    assert {holding.owner for holding in holdings if holding.counted} == {"direct-buffers"} & expected.keys()
    assert not unattributed


def test_what_is_left_is_not_the_jvms_once_it_told_all() -> None:
    rows = [row(BASE, MIB)]
    pieces = accounting.divide(rows, Claims())
    holdings, unattributed = accounting.account(Evidence(rows), pieces, [MIB])
    assert (holdings, sum(part.bytes for part in unattributed)) == ((), MIB)
    tags = [system_map.TaggedMapping(1 << 20, 1 << 21, 0, ("GC",), "")]
    holdings, unattributed = accounting.account(Evidence(rows, tags=tags), pieces, [MIB])
    assert [(holding.owner, holding.bytes) for holding in holdings] == [("anonymous", MIB)]
    assert not unattributed


def test_a_tag_beside_an_exact_range_means_the_rest() -> None:
    rows = [row(BASE, 4 * MIB)]
    heap = vm_info.JVMRange(BASE, BASE + MIB, "heap", "heap")
    both = system_map.TaggedMapping(BASE, BASE + 4 * MIB, 0, ("JAVAHEAP", "CLASS"), "")
    evidence = Evidence(rows, places=[heap], tags=[both])
    claims = accounting.known(evidence)
    accounting.claim_rest(evidence, claims, [(BASE + 3 * MIB, BASE + 4 * MIB)])
    pieces = accounting.divide(rows, claims)
    assert [(piece.owner, (piece.end - piece.start) // MIB) for piece in pieces] == [
        ("java-heap", 1),
        ("class-space", 2),
        ("malloc", 1),
    ]
    assert accounting.partial(rows, pieces) == [0, 1, 2]


@pytest.mark.parametrize(
    ("jvm", "with_nmt"), [("11-parallel", False), ("11-parallel", True), ("25-z", False), ("25-z", True)]
)
def test_a_real_jvm(jvm: str, with_nmt: bool) -> None:
    """With recorded evidence alone: no stack pointers, no page table, no malloc headers."""
    texts = [
        (DATA / "vm" / f"{jvm}-{command}.txt").read_text()
        for command in ("GC.heap_info", "Compiler.codecache", "VM.metaspace-basic")
    ]
    rows = smaps.parse((DATA / "smaps" / f"{jvm}.txt").read_text())
    report = nmt.parse((DATA / "nmt" / f"{jvm}-detail.txt").read_text())
    evidence = Evidence(
        rows,
        places=vm_info.places("\n".join(texts)),
        metaspace=vm_info.metaspace_usage("\n".join(texts)),
        nmt=report if with_nmt else None,
    )
    claims = accounting.known(evidence)
    accounting.claim_rest(evidence, claims, [])
    pieces = accounting.divide(rows, claims)
    holdings, unattributed = accounting.account(evidence, pieces, accounting.sizes(rows, pieces, {}))
    held: dict[str, Holding] = {holding.owner: holding for holding in holdings}
    assert sum(h.bytes for h in holdings) + sum(p.bytes for p in unattributed) == smaps.total(rows).rss
    assert 40 * MIB < held["java-heap"].bytes < 192 * MIB
    # On 11 these are merged with malloc's blocks: without the page table, they are shared out by length.
    assert 2 * MIB < held["metaspace"].bytes < 8 * MIB
    assert 300 * KIB < held["class-space"].bytes < 2 * MIB
    assert 500 * KIB < held["code-cache"].bytes < 4 * MIB
    assert 16 * MIB <= held["mapped-files"].bytes < 17 * MIB
    assert 1 * MIB < held["thread-stacks"].bytes < 4 * MIB
    if with_nmt:
        assert held["direct-buffers"].bytes > 5 * MIB
        assert not unattributed


def test_the_address_space_of_files() -> None:
    """Touched or not; anonymous memory is none."""
    rows = [
        row(BASE, 40 * MIB, "r--s", "/srv/atlas.bin", rss=MIB),
        row(BASE + 64 * MIB, 8 * MIB, "r--s", "/srv/names.bin", rss=0),
        row(BASE + 128 * MIB, MIB, "r-xp", "/opt/code.bin"),
        row(BASE + 130 * MIB, MIB, "r--p", "/opt/code.bin"),
        row(BASE + 140 * MIB, MIB, "r--p", "/opt/app.jar"),
        row(BASE + 150 * MIB, MIB),
    ]
    inodes = {path: 1 + at for at, path in enumerate(sorted({one.mapping.path for one in rows}))}
    files = [replace(one, mapping=replace(one.mapping, inode=inodes[one.mapping.path])) for one in rows]
    assert accounting.mapped_space(files) == MappedSpace(48 * MIB, 3 * MIB)
