"""The owner of each byte of a process's RSS: pure functions over data from /proc and the JVM.

The order of claims is: exact ones first; guesses take the rest.
1. ranges that the JVM reports; stacks by stack pointers; the .bss of ELF images
2. glibc's arenas, class space and metaspace by their shapes
3. malloc's large blocks by their headers: after step 2, because class metadata may look like a header
4. further stacks by their shape; the JVM's tags for whole mappings, which the kernel may have merged
   with a neighbour
Then each mapping is cut at the borders of these claims.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field

from offheap.analysis.native_heap.results import NativeHeap
from offheap.analysis.owners import malloc_split, mapping_shapes
from offheap.analysis.owners.accounts import Holding, MappedSpace, Owner, Part, Placed
from offheap.analysis.owners.claims import Claims, Range
from offheap.jvm.structures.direct_memory import DirectMemory
from offheap.jvm.texts.nmt import Report
from offheap.jvm.texts.system_map import TaggedMapping
from offheap.jvm.texts.vm_info import JVMPart as PlacePart
from offheap.jvm.texts.vm_info import JVMRange, MetaspaceUsage
from offheap.proc.pagemap import PAGE, Present
from offheap.proc.smaps import SmapsEntry
from offheap.proc.threads import Thread

UNNAMED_STACKS = "(threads that ran, or have ended)"
_PLACES: dict[PlacePart, Owner] = {
    "heap": "java-heap",
    "code": "code-cache",
    "metaspace": "metaspace",
    "class space": "class-space",
    "cds": "cds",
    "gc": "gc",
}
_CATEGORIES: dict[str, Owner] = {
    "Java Heap": "java-heap",
    "Metaspace": "metaspace",
    "Class": "class-space",
    "Code": "code-cache",
    "GC": "gc",
    "GCCardSet": "gc",
    "Card table": "gc",
    "Thread Stack": "thread-stacks",
    "Shared class space": "cds",
}
_TAGS: dict[str, Owner] = {
    "JAVAHEAP": "java-heap",
    "META": "metaspace",
    "CLASS": "class-space",
    "CODE": "code-cache",
    "GC": "gc",
    "CARDTBL": "gc",
    "CDS": "cds",
    "STACK": "thread-stacks",
}
_PROBE = re.compile(r"offheap-\d{1,10}-[0-9a-f]{16}\.live|liboffheap\.so", re.ASCII)
_JAR_ENDINGS = (".jar", ".war", ".ear", ".zip", ".jmod", "/modules")


@dataclass(frozen=True, slots=True)
class ImageExtent:
    """The addresses that an ELF file's segments occupy, .bss included."""

    start: int
    end: int
    path: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The data gathered about one process; missing data are empty or None."""

    rows: list[SmapsEntry]
    threads: list[Thread] = field(default_factory=list)
    images: list[ImageExtent] = field(default_factory=list)
    places: list[JVMRange] = field(default_factory=list)
    metaspace: MetaspaceUsage | None = None
    nmt: Report | None = None
    tags: list[TaggedMapping] = field(default_factory=list)
    direct: DirectMemory | None = None
    heads: Collection[int] = ()  # starts of the heaps of glibc's arenas that their mappings do not show

    @property
    def knows_the_jvm(self) -> bool:
        """Whether the JVM reported all of its mappings, so that the rest is not the JVM's."""
        return bool(self.tags or (self.nmt and self.nmt.regions))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part [start, end) of row number `row`; `owner` None: no owner."""

    row: int
    start: int
    end: int
    owner: Owner | None
    name: str


def known(evidence: Evidence) -> Claims:
    """The claims that need no read of the process's memory: steps 1 and 2."""
    rows = evidence.rows
    claims = Claims(mapping_shapes.stacks(rows, evidence.threads))
    claims.add(Range(p.start, p.end, _PLACES[p.part], p.name) for p in evidence.places)
    claims.add(Range(image.start, image.end, "shared-libraries", image.path) for image in evidence.images)
    if evidence.nmt:
        split = "Metaspace" in evidence.nmt.categories  # before JDK 16 Class included Metaspace
        for region in evidence.nmt.regions:
            owner = _CATEGORIES.get(region.category, "jvm-other")
            if owner == "class-space" and not split:
                continue  # step 2 claims it by its shape
            name = UNNAMED_STACKS if owner == "thread-stacks" else region.category
            claims.add([Range(region.start, region.end, owner, name)])
    claims.add(mapping_shapes.other_allocators(rows) or mapping_shapes.arenas(rows, evidence.heads))
    if evidence.metaspace:
        if not any(place.part == "class space" for place in evidence.places):
            claims.add(mapping_shapes.class_space(rows, claims, evidence.metaspace))
        if not any(place.part == "metaspace" for place in evidence.places):
            claims.add(mapping_shapes.metaspace(rows, claims, evidence.metaspace))
    claims.add(mapping_shapes.mark_stacks(rows))
    return claims


def searchable(rows: Sequence[SmapsEntry], claims: Claims) -> list[tuple[int, int]]:
    """The places of possible large glibc blocks: writable, anonymous, in memory and unclaimed."""
    return [
        (start, end)
        for row in rows
        if mapping_shapes.is_anonymous(row) and row.mapping.permissions.startswith("rw") and row.memory.rss
        for start, end, holder in claims.cut(row.mapping.start, row.mapping.end)
        if holder is None
    ]


def heaps(
    rows: Sequence[SmapsEntry], heads: Collection[int] = ()
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The ranges of glibc's arenas: the ones that brk grows, and the ones at multiples of 64 MiB."""
    main = [(row.mapping.start, row.mapping.end) for row in rows if row.mapping.path == "[heap]"]
    return main, [(found.start, found.end) for found in mapping_shapes.arenas(rows, heads)]


def claim_rest(evidence: Evidence, claims: Claims, chunks: Sequence[tuple[int, int]]) -> None:
    """Adds steps 3 and 4 to the claims of `known`; `chunks` are malloc's large blocks."""
    rows = evidence.rows
    claims.add(Range(start, end, "malloc", "glibc large blocks") for start, end in chunks)
    told = mapping_shapes.stacks(rows, evidence.threads)
    claims.add(mapping_shapes.other_stacks(rows, told, UNNAMED_STACKS))
    if evidence.nmt and "Metaspace" not in evidence.nmt.categories:
        classes = [region for region in evidence.nmt.regions if region.category == "Class"]
        claims.add(Range(region.start, region.end, "metaspace", "metaspace") for region in classes)
    exact = {_PLACES[place.part] for place in evidence.places}
    for tagged in evidence.tags:
        claims.add([_tagged(tagged, exact)])


def divide(rows: Sequence[SmapsEntry], claims: Claims) -> list[Piece]:
    """Every row with memory, cut at the borders of its claims."""
    executable = _executable(rows)
    pieces: list[Piece] = []
    for number, row in enumerate(rows):
        mapping = row.mapping
        if not row.memory.rss:
            continue
        by_name = _by_name(row, (mapping.device, mapping.inode) in executable)
        if by_name:
            pieces.append(Piece(number, mapping.start, mapping.end, *by_name))
            continue
        for start, end, holder in claims.cut(mapping.start, mapping.end):
            owner, name = (holder.owner, holder.name) if holder else _pathless(row)
            pieces.append(Piece(number, start, end, owner, name))
    return pieces


def partial(rows: Sequence[SmapsEntry], pieces: Sequence[Piece]) -> list[int]:
    """Indices of the pieces whose share of their row must be measured page by page."""
    return [
        index
        for index, piece in enumerate(pieces)
        if (piece.start, piece.end) != (rows[piece.row].mapping.start, rows[piece.row].mapping.end)
    ]


def sizes(rows: Sequence[SmapsEntry], pieces: Sequence[Piece], present: Map[int, Present]) -> list[int]:
    """RSS of each piece in bytes; `present` has the pages in memory of those that are `partial`.

    A row's pieces sum to its RSS exactly: pages only set the shares, because the page table is read later.
    """
    of_row: defaultdict[int, list[int]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        of_row[piece.row].append(index)
    result = [0] * len(pieces)
    for row, indices in of_row.items():
        rss = rows[row].memory.rss
        weights = _weights([present.get(index, Present(0, 0)) for index in indices], rss // PAGE)
        if not sum(weights):
            weights = [pieces[index].end - pieces[index].start for index in indices]
        total, given, seen = sum(weights), 0, 0
        for index, weight in zip(indices, weights, strict=True):
            seen += weight
            share = rss * seen // total
            result[index] = share - given
            given = share
    return result


def _weights(pieces: Sequence[Present], pages: int) -> list[int]:
    """The share of each piece in a row of `pages` pages.

    Doubtful pages count only as far as the others leave room: ZGC on JDK 11 reads a table of 16 MiB that is
    all zeros, and large blocks that the kernel merges with the table would lose half of their share to it.
    """
    doubtful = sum(piece.doubtful for piece in pieces)
    left = min(max(pages - sum(piece.counted for piece in pieces), 0), doubtful)
    return [piece.counted * max(doubtful, 1) + piece.doubtful * left for piece in pieces]


def placed(evidence: Evidence, pieces: Sequence[Piece], measured: Sequence[int]) -> tuple[Placed, ...]:
    """The pieces that have memory, with their owners."""
    return tuple(
        Placed(
            piece.start,
            piece.end,
            evidence.rows[piece.row].mapping.permissions,
            _owner(evidence, piece),
            piece.name,
            size,
        )
        for piece, size in zip(pieces, measured, strict=True)
        if size
    )


def account(
    evidence: Evidence, pieces: Sequence[Piece], measured: Sequence[int], heap: NativeHeap | None = None
) -> tuple[tuple[Holding, ...], tuple[Part, ...]]:
    """(holdings, the largest first; unattributed memory): together exactly the RSS of the rows.

    `heap` is the content of malloc's pages; without it only the JVM's counters can split them.
    """
    held: defaultdict[Owner | None, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for piece, size in zip(pieces, measured, strict=True):
        if not size:
            continue
        held[_owner(evidence, piece)][piece.name].append(size)
    unattributed = _parts(held.pop(None, {}))
    holdings = [
        Holding(owner, sum(part.bytes for part in parts), parts)
        for owner, names in held.items()
        if owner and (parts := _parts(names))
    ]
    holdings = [
        split
        for holding in holdings
        for split in malloc_split.split(holding, heap, evidence.nmt, evidence.direct)
    ]
    return tuple(sorted(holdings, key=lambda holding: -holding.bytes)), unattributed


def _owner(evidence: Evidence, piece: Piece) -> Owner | None:
    return "anonymous" if piece.owner is None and evidence.knows_the_jvm else piece.owner


def _parts(names: Map[str, list[int]]) -> tuple[Part, ...]:
    parts = [Part(name, sum(found), len(found)) for name, found in names.items()]
    return tuple(sorted(parts, key=lambda part: (-part.bytes, part.name)))


def _tagged(tagged: TaggedMapping, exact: set[Owner]) -> Range:
    """The mapping's tag; of several tags the only one without an exactly known place."""
    owners = {tag: _TAGS.get(tag.partition("-")[0], "jvm-other") for tag in tagged.tags}
    if len(owners) > 1:
        owners = {tag: owner for tag, owner in owners.items() if owner not in exact} or owners
    if len(owners) > 1:
        return Range(tagged.start, tagged.end, "jvm-other", ", ".join(owners))
    ((tag, owner),) = owners.items()
    name = tag.split("-", 2)[-1] if owner == "thread-stacks" else tag
    return Range(tagged.start, tagged.end, owner, name)


def mapped_space(rows: Sequence[SmapsEntry]) -> MappedSpace:
    executable = _executable(rows)
    files = libraries = 0
    for row in rows:
        found = _by_name(row, (row.mapping.device, row.mapping.inode) in executable) if row.is_file else None
        size = row.mapping.end - row.mapping.start
        files += size if found and found[0] == "mapped-files" else 0
        libraries += size if found and found[0] in ("shared-libraries", "jars") else 0
    return MappedSpace(files, libraries)


def _executable(rows: Sequence[SmapsEntry]) -> set[tuple[str, int]]:
    """The files of which a mapping is executable: libraries, whatever their names."""
    return {
        (row.mapping.device, row.mapping.inode)
        for row in rows
        if row.is_file and "x" in row.mapping.permissions
    }


def _by_name(row: SmapsEntry, executable: bool) -> tuple[Owner, str] | None:
    """The owner by the mapping's name, which overrides claims on its addresses."""
    path = row.mapping.path
    if path.startswith("/memfd:java_heap"):
        return "java-heap", "ZGC heap"
    if row.is_file:
        return _file(path, executable), path
    if path == "[heap]":
        return "malloc", "[heap]"
    if path.startswith("[stack"):
        return "thread-stacks", "[stack] of the process's first thread"
    # glibc 2.39 and later, with glibc.mem.decorate_maps=1.
    if path.startswith("[anon: glibc: pthread stack"):
        return "thread-stacks", path.strip("[]")
    if path.startswith(("[anon: glibc: malloc", "[anon: glibc: loader malloc")):
        return "malloc", path.strip("[]")
    if path.startswith("[v") or path == "[uprobes]":
        return "kernel", path
    return None


def _file(path: str, executable: bool) -> Owner:
    name = path.rpartition("/")[2]
    if _PROBE.fullmatch(name):
        return "probe"
    if path.endswith(".jsa"):
        return "cds"
    if "/hsperfdata_" in path:
        return "jvm-other"
    if path.endswith(_JAR_ENDINGS):
        return "jars"
    if executable or name.endswith(".so") or ".so." in name:
        return "shared-libraries"
    return "mapped-files"


def _pathless(row: SmapsEntry) -> tuple[Owner | None, str]:
    """The owner of unclaimed memory: names identify shared memory and memory that the program named."""
    path = row.mapping.path
    if path.startswith("[anon:"):
        return "anonymous", path
    if path and not path.startswith("/anon_hugepage"):
        return "mapped-files", path
    return None, "anonymous memory" if "x" not in row.mapping.permissions else "anonymous code"
