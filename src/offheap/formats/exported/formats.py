"""The formats of `offheap export` by name; the module of a format is loaded only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from offheap.formats.exported.content.samples import Samples, Side, Value, samples
from offheap.recording.model import Recording

# What a user can choose; a value has no meaning for a format that has all values, or none.
Choice = Literal["side", "value"]
Writer = Callable[[Recording, Side, Value], bytes]


@dataclass(frozen=True)
class Format:
    """about   who reads it
    suffix  of the file
    write   the file's content
    takes   what a user can choose
    binary  not for a terminal
    """

    about: str
    suffix: str
    write: Writer
    takes: tuple[Choice, ...] = ("side",)
    binary: bool = False


def _of_samples(module: str, function: str) -> Writer:
    """Writes by `function(samples)` of a module of this room."""

    def write(recording: Recording, side: Side, _: Value) -> bytes:
        encode: Callable[[Samples], bytes] = getattr(
            importlib.import_module(f"offheap.formats.exported.{module}"), function
        )
        return encode(samples(recording, side))

    return write


def _collapsed(recording: Recording, side: Side, value: Value) -> bytes:
    from offheap.formats.exported.collapsed import collapsed

    return collapsed(samples(recording, side), value)


def _chrome_trace(recording: Recording, _: Side, __: Value) -> bytes:
    from offheap.formats.exported.counters import chrome_trace

    return chrome_trace(recording)


def pprof_of_instant(recording: Recording) -> bytes:
    """What is live at the recording's end, for a server that draws profiles over time."""
    from offheap.formats.exported.content.span import instant
    from offheap.formats.exported.pprof import pprof

    return pprof(samples(recording), instant(recording.info))


def otlp_of_instant(recording: Recording, resource: Mapping[str, str]) -> bytes:
    """The same as OTLP; `resource` has the attributes of the whole program."""
    from offheap.formats.exported.content.span import instant
    from offheap.formats.exported.otlp import otlp

    return otlp(samples(recording), instant(recording.info), resource)


FORMATS: Mapping[str, Format] = {
    "pprof": Format("go tool pprof, Pyroscope, Parca", ".pb.gz", _of_samples("pprof", "pprof"), binary=True),
    "otlp": Format("OpenTelemetry collectors", ".otlp", _of_samples("otlp", "otlp"), binary=True),
    "collapsed": Format("flamegraph.pl and compatible tools", ".collapsed", _collapsed, ("side", "value")),
    "speedscope": Format("speedscope.app", ".speedscope.json", _of_samples("speedscope", "speedscope")),
    "firefox": Format("profiler.firefox.com", ".firefox.json", _of_samples("firefox", "firefox")),
    "heaptrack": Format(
        "heaptrack_gui, heaptrack_print", ".heaptrack.gz", _of_samples("heaptrack", "heaptrack"), binary=True
    ),
    "jemalloc": Format("jeprof", ".heap", _of_samples("jemalloc", "jemalloc")),
    "mtrace-summary": Format(
        "people: unfreed blocks by caller", ".mtrace.txt", _of_samples("mtrace_summary", "mtrace_summary")
    ),
    "chrome-trace": Format("Perfetto: figures over time", ".trace.json", _chrome_trace, ()),
    "csv": Format("spreadsheets", ".csv", _of_samples("table", "as_csv")),
    "json": Format("scripts", ".json", _of_samples("table", "as_json")),
    "parquet": Format(
        "DuckDB, Spark, notebooks", ".parquet", _of_samples("table", "as_parquet"), binary=True
    ),
}
