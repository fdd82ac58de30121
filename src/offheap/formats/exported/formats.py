"""The formats of `offheap export` by name; each module is loaded only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from offheap.formats.exported.content.samples import Side, Value, samples
from offheap.recording.model import Recording

# What can be chosen; a value has no meaning for a format that carries all of them, or none.
Choice = Literal["side", "value"]


@dataclass(frozen=True)
class Format:
    """about   who reads it
    suffix  of the file
    write   the file's content
    takes   what can be chosen for it
    binary  not for a terminal
    """

    about: str
    suffix: str
    write: Callable[[Recording, Side, Value], bytes]
    takes: tuple[Choice, ...] = ("side",)
    binary: bool = False


def _pprof(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.pprof import pprof

    return pprof(samples(recording, side))


def _otlp(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.otlp import otlp

    return otlp(samples(recording, side))


def pprof_of_instant(recording: Recording) -> bytes:
    """What is live at the recording's end, for a server that draws profiles over time."""
    from offheap.formats.exported.content.span import instant
    from offheap.formats.exported.pprof import pprof

    return pprof(samples(recording), instant(recording.info))


def otlp_of_instant(recording: Recording, resource: Mapping[str, str]) -> bytes:
    """Likewise; `resource`: attributes of the whole program."""
    from offheap.formats.exported.content.span import instant
    from offheap.formats.exported.otlp import otlp

    return otlp(samples(recording), instant(recording.info), resource)


def _collapsed(recording: Recording, side: Side, value: Value) -> bytes:
    from offheap.formats.exported.collapsed import collapsed

    return collapsed(samples(recording, side), value)


def _speedscope(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.speedscope import speedscope

    return speedscope(samples(recording, side))


def _jemalloc(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.jemalloc import jemalloc

    return jemalloc(samples(recording, side))


def _firefox(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.firefox import firefox

    return firefox(samples(recording, side))


def _heaptrack(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.heaptrack import heaptrack

    return heaptrack(samples(recording, side))


def _mtrace_summary(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.mtrace_summary import mtrace_summary

    return mtrace_summary(samples(recording, side))


def _chrome_trace(recording: Recording, _: Side, __: Value) -> bytes:
    from offheap.formats.exported.counters import chrome_trace

    return chrome_trace(recording)


def _csv(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.table import as_csv

    return as_csv(samples(recording, side))


def _json(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.table import as_json

    return as_json(samples(recording, side))


def _parquet(recording: Recording, side: Side, _: Value) -> bytes:
    from offheap.formats.exported.table import as_parquet

    return as_parquet(samples(recording, side))


FORMATS: Mapping[str, Format] = {
    "pprof": Format("go tool pprof, Pyroscope, Parca", ".pb.gz", _pprof, binary=True),
    "otlp": Format("OpenTelemetry collectors", ".otlp", _otlp, binary=True),
    "collapsed": Format("flamegraph.pl and its kin", ".collapsed", _collapsed, ("side", "value")),
    "speedscope": Format("speedscope.app", ".speedscope.json", _speedscope),
    "firefox": Format("profiler.firefox.com", ".firefox.json", _firefox),
    "heaptrack": Format("heaptrack_gui, heaptrack_print", ".heaptrack.gz", _heaptrack, binary=True),
    "jemalloc": Format("jeprof", ".heap", _jemalloc),
    "mtrace-summary": Format("people: unfreed blocks by caller", ".mtrace.txt", _mtrace_summary),
    "chrome-trace": Format("Perfetto: figures over time", ".trace.json", _chrome_trace, ()),
    "csv": Format("spreadsheets", ".csv", _csv),
    "json": Format("scripts", ".json", _json),
    "parquet": Format("DuckDB, Spark, notebooks", ".parquet", _parquet, binary=True),
}
