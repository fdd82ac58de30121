"""One inspection of a running process: gathers data from /proc and the JVM, and accounts for its RSS.

An inspection does not stop the process: it reads /proc, and sends only diagnostic commands of the JVM that
need no safepoint.  `detail` adds a command that leaves some 5 MiB behind in the process.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from offheap.analysis.native_heap import native_heap
from offheap.analysis.native_heap.results import NativeHeap
from offheap.analysis.owners import accounting, mapping_shapes
from offheap.analysis.owners.accounting import Evidence, ImageExtent
from offheap.analysis.owners.accounts import Accounts
from offheap.errors import UserError
from offheap.inspect.questions import ANSWERING_THREADS, Answers, ask
from offheap.jvm.command_line import command
from offheap.jvm.counters import gauges, hsperfdata
from offheap.jvm.listener import target
from offheap.jvm.listener.attach_listener import NoProcess, TargetGone
from offheap.jvm.structures import direct_memory, vm_places
from offheap.jvm.structures.direct_memory import DirectMemory
from offheap.jvm.texts import vm_info
from offheap.proc import cgroup, maps, root, smaps, status, threads
from offheap.proc.glibc import glibc_chunks, glibc_heap
from offheap.proc.images.elf import SEGMENT_LOAD, ElfError, ElfImage
from offheap.proc.maps import Mapping
from offheap.proc.pagemap import PAGE, Pagemap
from offheap.proc.smaps import SmapsEntry
from offheap.proc.status import Status
from offheap.proc.time_limit import within

# A request that a JVM does not answer ends after 10 s, one for details after 60 s.
_SECONDS, _LONG_SECONDS = 60.0, 240.0
_PTRACE = (
    "thread stacks and malloc's large blocks cannot be told apart from other memory, "
    "nor malloc's blocks from what it keeps free: run offheap as root, or with CAP_SYS_PTRACE"
)
# Address space of ELF files by device and inode: every inspection needs the same few dozen files.
_image_lengths: dict[tuple[str, int], int] = {}
_MOST_LENGTHS = 4096
_TABLES = "the collector's tables are not told from other anonymous memory: --detail asks for some of them"
_SETTINGS = ("MALLOC_", "GLIBC_TUNABLES")
_COMPLETE, _IN_PLACE = 0.99, 0.5  # shares of glibc's arenas that were walked
_KEPT = "the memory that it keeps free cannot be told from blocks"
_OTHER_ALLOCATORS = {
    "jemalloc": f"jemalloc has malloc's place: {_KEPT}",
    "tcmalloc": f"tcmalloc has malloc's place: {_KEPT}, nor its mappings from other anonymous memory",
    "mimalloc": f"mimalloc has malloc's place: {_KEPT}",
}


def inspect_process(
    pid: int, *, attach: bool = True, detail: bool = False, walk: bool = True, exact: bool = False
) -> Accounts:
    """The accounts of one process, a JVM or not, within a minute; four with `detail` or `exact`.

    `walk` goes through malloc's chunks, which takes most of the time: without it malloc's free memory is
    unknown.  The walk stops after about a second, unless `exact`.
    `attach` also asks the JVM; `detail` adds commands that cost the JVM memory.  UserError when the process
    cannot be inspected; `Accounts.missing` lists missing parts.
    """
    seconds = _LONG_SECONDS if detail or exact else _SECONDS
    try:
        # A file that never answers may back the process's memory, and the limits of its files add up.
        return within(seconds, lambda: _inspect(pid, attach, detail, walk, exact))
    except TimeoutError as error:
        raise UserError(
            f"PID {pid} {error.strerror}", "try again when the file systems that it uses answer"
        ) from None


def _inspect(pid: int, attach: bool, detail: bool, walk: bool, exact: bool) -> Accounts:
    began = time.monotonic()
    process = _status(pid)
    try:
        mappings = maps.read(pid)
    except PermissionError:
        target.check_user(process)
        raise UserError(f"PID {pid} hides its memory from this user", target.with_more_rights()) from None
    except ProcessLookupError:
        raise TargetGone(pid, "reading it") from None
    if not mappings and not process.kernel_thread:
        raise TargetGone(pid, "reading it")
    if not mappings:
        raise UserError(f"PID {pid} ({process.name}) has no memory of its own", "give the PID of a JVM")
    performance = hsperfdata.read(pid, process.namespace_pid, mappings)
    faults = threads.faults(pid, ANSWERING_THREADS) if attach else 0
    answers = ask(process, detail) if attach else Answers()
    if not attach:
        answers.missing.append(
            "the JVM was not asked (--no-attach): without its answer only JDK 11 shows metaspace"
        )
    try:
        accounts = _close(process, answers, began, walk, exact)
        cost = (threads.faults(pid, ANSWERING_THREADS) - faults) * PAGE if attach else 0
    except (ProcessLookupError, FileNotFoundError):
        raise TargetGone(pid, "reading it") from None
    arguments = status.command_line(pid)
    name = command.main_of(arguments) if target.has_libjvm(mappings) else ""
    if not name and performance:
        name = command.main_of_command(performance.java_command)
    return replace(
        accounts,
        name=command.short(name) or process.name,
        java_version=performance.java_version if performance else "",
        cost_bytes=max(cost, 0),
        counters=gauges.read(performance) if performance else {},
    )


def _close(process: Status, answers: Answers, began: float, walk: bool, exact: bool) -> Accounts:
    pid = process.pid
    found = threads.read(pid)
    rows = smaps.read(pid)
    if not rows:
        raise ProcessLookupError
    # After the JVM's own claims: the first claim on an address counts.
    answers.places += _found(pid, rows)
    if answers.sources and not _knows_tables(rows, answers):
        answers.missing.append(_TABLES)
    heads = _heads(pid, rows)
    direct = _direct(pid, rows)
    evidence = Evidence(
        rows,
        found,
        _images(pid, rows),
        answers.places,
        answers.metaspace,
        answers.report,
        answers.tags,
        direct,
        heads,
    )
    claims = accounting.known(evidence)
    allocator = _allocator(rows)
    chunks: list[tuple[int, int]] = []
    heap: NativeHeap | None = None
    try:
        chunks, complete = glibc_chunks.find(pid, accounting.searchable(rows, claims))
        if not complete:
            answers.missing.append(
                "not all anonymous memory was searched for malloc's large blocks: too much of it"
            )
        heap = _native_heap(pid, rows, heads, chunks, answers, exact, allocator) if walk else None
        if heap:
            allocator = ""
    except PermissionError:
        answers.missing.append(_PTRACE)
    accounting.claim_rest(evidence, claims, chunks)
    pieces = accounting.divide(rows, claims)
    present = {}
    with Pagemap(pid) as pagemap:
        for index in accounting.partial(rows, pieces):
            present[index] = pagemap.split(pieces[index].start, pieces[index].end)
    measured = accounting.sizes(rows, pieces, present)
    holdings, unattributed = accounting.account(evidence, pieces, measured, heap)
    if allocator:
        answers.missing.append(_OTHER_ALLOCATORS[allocator])
    memory = smaps.total(rows)
    return Accounts(
        pid=pid,
        name=process.name,
        java_version="",
        memory=memory,
        holdings=holdings,
        unattributed=unattributed,
        cgroup=cgroup.read(pid),
        native_heap=heap,
        ranges=accounting.placed(evidence, pieces, measured),
        sources=tuple(answers.sources),
        missing=tuple(answers.missing),
        seconds=time.monotonic() - began,
        cost_bytes=0,
        allocator=allocator,
        space=accounting.mapped_space(rows),
        direct=direct,
    )


def _heads(pid: int, rows: Sequence[SmapsEntry]) -> list[int]:
    try:
        return glibc_heap.heads(pid, mapping_shapes.unflagged(rows))
    except PermissionError:
        return []  # _native_heap reports the missing right


def _found(pid: int, rows: Sequence[SmapsEntry]) -> list[vm_info.JVMRange]:
    try:
        return vm_places.places(pid, [row.mapping for row in rows])
    except PermissionError:
        return []  # _native_heap reports the missing right


def _direct(pid: int, rows: Sequence[SmapsEntry]) -> DirectMemory | None:
    try:
        return direct_memory.read(pid, [row.mapping for row in rows])
    except PermissionError:
        return None  # _native_heap reports the missing right


def _knows_tables(rows: Sequence[SmapsEntry], answers: Answers) -> bool:
    """Whether the collector's tables are known, or this is ZGC, whose heap has none, or no JVM."""
    if answers.tags or (answers.report and answers.report.regions):
        return True
    names = [row.mapping.name for row in rows]
    return (
        any(place.part == "gc" for place in answers.places)
        or any(name.startswith("memfd:java_heap") for name in names)
        or "libjvm.so" not in names
    )


def _native_heap(
    pid: int,
    rows: Sequence[SmapsEntry],
    heads: Sequence[int],
    chunks: Sequence[tuple[int, int]],
    answers: Answers,
    exact: bool,
    allocator: str,
) -> NativeHeap | None:
    """malloc's blocks; PermissionError when this user may not read the memory.

    None if `allocator`, a loaded library, replaces malloc.
    """
    # Before the walk: programs free such blocks and get others at the same addresses many times a second.
    large = glibc_heap.blocks(pid, chunks)
    main, others = accounting.heaps(rows, heads)
    scrambled = not any(_is_old_glibc(row.mapping.name) for row in rows)
    most = glibc_heap.ALL_CHUNKS if exact else glibc_heap.FEW_CHUNKS
    heaps = glibc_heap.walk(pid, main, others, scrambled=scrambled, most=most)
    size = sum(heap.end - heap.start for heap in heaps)
    walked = sum(heap.walked - heap.start for heap in heaps)
    # If the library is only loaded, glibc's arenas exist and are full of chunks.  (Large blocks prove
    # nothing: any memory may look like one.)
    if allocator and (not size or walked < _IN_PLACE * size):
        return None
    settings = {name: text for name, text in status.environment(pid).items() if name.startswith(_SETTINGS)}
    heap = native_heap.native_heap(heaps, large, answers.report, settings)
    if heap.estimated:
        answers.missing.append(
            f"malloc has more blocks than are walked in a second: what is said of them is estimated from the "
            f"{heap.coverage:.0%} of its memory that were; --exact walks all"
        )
    elif heap.coverage < _COMPLETE:
        answers.missing.append(
            f"{1 - heap.coverage:.0%} of malloc's arenas could not be walked: they changed too fast, "
            "or are swapped out"
        )
    return heap


def _is_old_glibc(name: str) -> bool:
    """Whether a library is a glibc before 2.32, which does not scramble the links of free chunks."""
    match = re.fullmatch(r"libc-2\.(\d{1,3})\.so", name, re.ASCII)
    return bool(match and int(match[1]) < 32)


def _status(pid: int) -> Status:
    try:
        process = status.read(pid)
    except ProcessLookupError:
        raise NoProcess(pid) from None
    if not process.alive:
        raise NoProcess(pid, f"PID {pid} has ended and only waits for its parent")
    return process


def _images(pid: int, rows: Sequence[SmapsEntry]) -> list[ImageExtent]:
    """The address range of each mapped ELF file, from its first mapping and its program headers."""
    images = []
    seen: set[tuple[str, int]] = set()
    for row in rows:
        mapping = row.mapping
        key = (mapping.device, mapping.inode)
        if not row.is_file or mapping.offset or key in seen:
            continue
        seen.add(key)
        if length := _image_bytes(pid, mapping):
            images.append(ImageExtent(mapping.start, mapping.start + length, mapping.path))
    return images


def _image_bytes(pid: int, mapping: Mapping) -> int:
    """The address space of an ELF file, in whole pages; 0 for other files."""
    key = (mapping.device, mapping.inode)
    known = _image_lengths.get(key)
    if known is not None:
        return known
    length = 0
    try:
        with ElfImage.of(root.open_mapped(pid, mapping)) as image:
            loads = image.segments[image.segments["type"] == SEGMENT_LOAD]
    except ElfError:
        pass  # most files that a JVM maps are not ELF
    except OSError:
        return 0
    else:
        if len(loads):
            base = int(loads["address"][0]) // PAGE * PAGE
            length = max(int(row["address"]) + int(row["memory_size"]) for row in loads) - base
            length = -(-length // PAGE) * PAGE if 0 < length < 1 << 40 else 0
    if len(_image_lengths) < _MOST_LENGTHS:
        _image_lengths[key] = length
    return length


def _allocator(rows: Sequence[SmapsEntry]) -> str:
    """The library that replaces malloc; "" for glibc's own."""
    names = {row.mapping.name for row in rows if row.is_file and "x" in row.mapping.permissions}
    return next((one for one in _OTHER_ALLOCATORS if any(f"lib{one}" in name for name in names)), "")
