"""What `offheap.open(path)` gives: a recording for people's own analysis, in Python, numpy and SQL.

docs/notebook.md shows it in use.  Within a major version attributes, columns and tables are only added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.report import report as java_heap
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.ticket import Ticket, ticket
from offheap.analysis.sites.results import Site
from offheap.analysis.statistics.estimate import Estimate
from offheap.errors import UserError
from offheap.recording.model import JAVA, LIVE, SERIES, Frame, Info, OwnersOverTime, Recording
from offheap.report.text.printable import printable

if TYPE_CHECKING:
    import duckdb

Columns = dict[str, NDArray[Any]]

_KINDS = np.array(["", "malloc", "mmap", "java"], object)


class StackSequence(Sequence[tuple[Frame, ...]]):
    """Call stacks by number, as `live["stack"]` and `series["stack"]` have them; number 0 is empty."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __len__(self) -> int:
        return len(self._recording.stack_offsets) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[Frame, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Frame, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Frame, ...] | list[tuple[Frame, ...]]:
        if isinstance(index, slice):
            return [tuple(self._recording.stack(number)) for number in range(len(self))[index]]
        return tuple(self._recording.stack(range(len(self))[index]))


class OpenedRecording:
    """A recording, or the live file of a process, as it was when it was opened; nothing in it changes.

    Sizes are bytes, times are seconds since the recording began.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def info(self) -> Info:
        """The process, the mode, how long, what was lost and could not be seen."""
        return self._recording.info

    @cached_property
    def suspects(self) -> Sequence[Suspect]:
        """Every site with its verdict, the worst first; each is made when it is asked for."""
        return self._ranking

    @cached_property
    def sites(self) -> list[Site]:
        """Stacks that share their allocating caller, most live bytes first; `Site.stacks`: their numbers."""
        table = self._ranking.sites
        used = np.flatnonzero((table.allocated_bytes.high != 0) | (table.live_bytes.high != 0))
        order = used[np.argsort(-table.live_bytes.estimate[used], kind="stable")]
        return [table.site(number) for number in order.tolist()]

    @property
    def stacks(self) -> StackSequence:
        """Frames by stack number, innermost first."""
        return StackSequence(self._recording)

    @property
    def live(self) -> NDArray[np.void]:
        """A row a block or mapping that is live: stack, thread, size, birth, probability.

        1 / probability is how many blocks it stands for, size / probability how many bytes.
        """
        return self._recording.live

    @property
    def series(self) -> NDArray[np.void]:
        """A row for each stack that changed, by time: a stack keeps its latest row until the next.

        time, stack, samples, and live_ and allocated_ blocks and bytes, each with its _variance.
        """
        return self._recording.series

    @property
    def process(self) -> NDArray[np.void]:
        """A row a snapshot: time, rss_bytes, live_bytes, live_blocks, allocated_bytes, threads."""
        return self._recording.process

    @property
    def owners(self) -> OwnersOverTime:
        """Who held RSS, over time; without rows where nobody read them."""
        return self._recording.owners

    @cached_property
    def java_heap(self) -> JavaHeapReport | None:
        """The Java heap: suspects, survivors, books, classes; None where Java objects were not requested."""
        return java_heap(self._recording)

    @property
    def java_live(self) -> NDArray[np.void]:
        """A row a followed Java object, as in `live`; without rows where none were followed."""
        java = self._recording.java
        return java.live if java else np.zeros(0, LIVE)

    @property
    def java_series(self) -> NDArray[np.void]:
        """The same as `series`, of Java objects."""
        java = self._recording.java
        return java.series if java else np.zeros(0, SERIES)

    @property
    def threads(self) -> Sequence[str]:
        """Names by `live["thread"]`."""
        return self._recording.threads

    @cached_property
    def ticket(self) -> Ticket:
        """The answer in words, the figures and the suspects of one page."""
        return ticket(self._recording, self._ranking)

    @property
    def answer(self) -> str:
        """Is it leaking, what, how fast, how sure: one or two sentences."""
        return self.ticket.answer

    def relation(self, table: str) -> duckdb.DuckDBPyRelation:
        """A table as a DuckDB relation; TABLES has their names, docs/notebook.md their columns."""
        if table not in TABLES:
            raise UserError(f"there is no table {table!r}", f"choose one of {', '.join(TABLES)}")
        return self._database.table(table)

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """The result of a query over all tables, by name."""
        return self._database.sql(query)

    def __repr__(self) -> str:
        # Shown by the interpreter itself, at a terminal.
        return f"<offheap recording {self.info.path!r}: {printable(self.answer)}>"

    def _repr_markdown_(self) -> str:
        from offheap.report.ticket import markdown
        from offheap.report.ticket.ticket import document

        return markdown.write(document(self.ticket, self.java_heap))

    def _repr_html_(self) -> str:
        from offheap.report.ticket import fragment
        from offheap.report.ticket.ticket import document

        return fragment.write(document(self.ticket, self.java_heap))

    @cached_property
    def _ranking(self) -> Ranking:
        return ranking(self._recording)

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        database = duckdb.connect(":memory:")
        for name, columns in _tables(self).items():
            # DuckDB cannot tell the type of a column of texts without a row.
            casts = (
                f'"{c}"::VARCHAR AS "{c}"' if v.dtype == object else f'"{c}"' for c, v in columns.items()
            )
            database.register("arrays", columns)
            database.execute(f"CREATE TABLE {name} AS SELECT {', '.join(casts)} FROM arrays")
            database.unregister("arrays")
        return database


TABLES = (
    "live",
    "series",
    "process",
    "stacks",
    "stack_frames",
    "frames",
    "threads",
    "modules",
    "sites",
    "owners",
    "java_live",
    "java_series",
    "java_classes",
    "java_collections",
)


def _tables(opened: OpenedRecording) -> dict[str, Columns]:
    recording = opened._recording
    count = len(recording.stack_offsets) - 1
    depths = np.diff(recording.stack_offsets)
    starts = np.repeat(recording.stack_offsets[:-1], depths)
    owners = recording.owners
    readings, held = owners.bytes.shape
    return {
        "live": _columns(recording.live),
        "series": _columns(recording.series),
        "process": _columns(recording.process),
        "stacks": {
            "stack": np.arange(count),
            "kind": _KINDS[np.minimum(recording.stack_kinds, JAVA)],
            "site": _sites_of_stacks(opened.sites, count),
            "depth": depths,
        },
        "stack_frames": {
            "stack": np.repeat(np.arange(count), depths),
            "position": np.arange(len(recording.stack_frames)) - starts,
            "frame": np.array(recording.stack_frames),
        },
        "frames": {
            "frame": np.arange(len(recording.frames)),
            **{
                name: _texts([getattr(frame, name) for frame in recording.frames])
                for name in ("name", "kind", "module", "file")
            },
            "line": np.array([frame.line for frame in recording.frames], np.int64),
            "inlined": np.array([frame.inlined for frame in recording.frames], np.bool_),
        },
        "threads": {"thread": np.arange(len(recording.threads)), "name": _texts(recording.threads)},
        "modules": {
            "module": np.arange(len(recording.modules)),
            "path": _texts([module.path for module in recording.modules]),
            "build_id": _texts([module.build_id for module in recording.modules]),
        },
        "sites": _sites(opened),
        "owners": {
            "time": np.repeat(owners.times, held),
            "owner": _texts(owners.names * readings),
            "bytes": owners.bytes.ravel(),
        },
        "java_live": _columns(opened.java_live),
        "java_series": _columns(opened.java_series),
        "java_classes": _java_classes(opened.java_heap),
        "java_collections": _java_collections(opened.java_heap),
    }


def _java_classes(report: JavaHeapReport | None) -> Columns:
    classes = report.classes if report else ()
    return {
        "class": _texts([one.name for one in classes]),
        **_figures("live_bytes", [one.live_bytes for one in classes]),
        **_figures("live_objects", [one.live_objects for one in classes]),
        **_figures("uncollected_bytes", [one.uncollected_bytes for one in classes]),
    }


def _java_collections(report: JavaHeapReport | None) -> Columns:
    ran = report.after_collections if report else ()
    heap = [np.nan if one.heap_bytes is None else one.heap_bytes for one in ran]
    return {
        "time": np.array([one.seconds for one in ran], np.float64),
        "kind": _texts([one.kind for one in ran]),
        **_figures("live_bytes", [one.live_bytes for one in ran]),
        "heap_bytes": np.array(heap, np.float64),
    }


def _figures(name: str, values: Sequence[Estimate]) -> Columns:
    """An estimate and its interval as columns: name, name_low, name_high."""
    return {
        column: np.array([getattr(value, part) for value in values], np.float64)
        for part, column in (("estimate", name), ("low", f"{name}_low"), ("high", f"{name}_high"))
    }


def _columns(rows: NDArray[np.void]) -> Columns:
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}


def _texts(texts: Sequence[str]) -> NDArray[Any]:
    # DuckDB refuses what is no UTF-8; a hostile name may have lone surrogates.
    clean = [text.encode("utf-8", "backslashreplace").decode() for text in texts]
    return np.array([*clean, ""], object)[:-1]


def _sites_of_stacks(sites: Sequence[Site], count: int) -> NDArray[np.int64]:
    numbers = np.full(count, -1, np.int64)
    for number, site in enumerate(sites):
        numbers[list(site.stacks)] = number
    return numbers


def _sites(opened: OpenedRecording) -> Columns:
    """By their place in `sites`."""
    suspects = {suspect.site.stacks: suspect for suspect in opened.suspects}
    chosen = [suspects[site.stacks] for site in opened.sites]

    def figures(of: str) -> Columns:
        return _figures(of, [getattr(s if of == "growth_bytes_per_second" else s.site, of) for s in chosen])

    return {
        "site": np.arange(len(chosen)),
        "rank": np.array([suspect.rank for suspect in chosen], np.int64),
        "verdict": _texts([suspect.verdict for suspect in chosen]),
        "confidence": np.array([suspect.confidence for suspect in chosen], np.float64),
        "kind": _texts([suspect.site.kind for suspect in chosen]),
        "blamed": _texts([suspect.blamed.name for suspect in chosen]),
        **figures("live_bytes"),
        **figures("live_blocks"),
        **figures("allocated_bytes"),
        **figures("growth_bytes_per_second"),
    }
