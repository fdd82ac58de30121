"""pprof, gzipped: four values a sample, inlined frames as lines of one location, mappings with build-ids.

A stack has a sample for each thread that holds a part of it, and one without a thread for what was freed.

Schema: github.com/google/pprof/proto/profile.proto.  Addresses are left out: names say where code is, and an
address would make pprof name it again by the files of its own machine.
"""

from __future__ import annotations

import gzip
from operator import add
from typing import Any

from offheap.formats.exported.content.samples import (
    LEVEL,
    VALUES,
    Samples,
    at_most_64_bits,
    nanoseconds,
    text,
)
from offheap.formats.exported.content.span import Span, whole
from offheap.formats.pprof_schema import profile_class
from offheap.recording.model import Frame


def pprof(samples: Samples, span: Span | None = None) -> bytes:
    """`span`: None for the whole recording."""
    profile = profile_class()()
    info = samples.recording.info
    span = span or whole(info)
    columns = span.columns()
    strings = _Strings(profile.string_table)
    for value in span.values:
        profile.sample_type.add(type=strings.number(value), unit=strings.number(VALUES[value]))
    profile.default_sample_type = strings.number("inuse_space")
    profile.period_type.type, profile.period_type.unit = strings.number("space"), strings.number("bytes")
    profile.period = max(at_most_64_bits(info.interval_bytes), 1)  # 1: each byte was recorded
    profile.time_nanos = nanoseconds(span.start)
    profile.duration_nanos = nanoseconds(span.duration)
    locations = _Locations(profile, strings, samples)
    labels = tuple(strings.number(name) for name in ("kind", "verdict", "thread"))
    stacks: dict[int, tuple[int, ...]] = {}
    # Calls of one line at several addresses are one location here.
    merged: dict[tuple[tuple[int, ...], tuple[str, str, str]], list[int]] = {}
    for place, part in samples.parts():
        values = [part.values[column] for column in columns]
        if any(values):
            if place not in stacks:
                stacks[place] = tuple(locations.number(call) for call in samples.calls(place))
            facts = samples.kind(place), samples.verdicts[place], part.thread
            sums = merged.setdefault((stacks[place], facts), [0] * len(values))
            sums[:] = map(add, sums, values)
    for (stack, facts), values in merged.items():
        sample = profile.sample.add(value=values, location_id=stack)
        for label, fact in zip(labels, facts, strict=True):
            if fact:
                sample.label.add(key=label, str=strings.number(fact))
    profile.comment.extend(strings.number(sentence) for sentence in info.coverage)
    # Without a time in the header, equal recordings give equal files.
    return gzip.compress(profile.SerializeToString(), LEVEL, mtime=0)


class _Strings:
    """pprof's table of strings; number 0 is ""."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._numbers = {"": 0}
        table.append(b"")

    def number(self, name: str) -> int:
        known = text(name)
        number = self._numbers.setdefault(known, len(self._numbers))
        if number == len(self._table):
            self._table.append(known.encode())
        return number


class _Locations:
    def __init__(self, profile: Any, strings: _Strings, samples: Samples) -> None:
        self._profile, self._strings = profile, strings
        self._numbers: dict[tuple[Frame, ...], int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._mappings: dict[str, int] = {}
        self._modules = samples.modules()

    def number(self, call: list[Frame]) -> int:
        key = tuple(call)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._numbers) + 1
            location = self._profile.location.add(id=found, mapping_id=self._mapping(call[-1].module))
            for frame in call:
                location.line.add(function_id=self._function(frame), line=frame.line)
        return found

    def _mapping(self, name: str) -> int:
        module, strings = self._modules.get(name), self._strings
        if module is None:
            return 0
        found = self._mappings.get(name)
        if found is None:
            found = self._mappings[name] = len(self._mappings) + 1
            self._profile.mapping.add(
                id=found,
                memory_start=module.start,
                memory_limit=module.end,
                filename=strings.number(module.path),
                build_id=strings.number(module.build_id),
                has_functions=True,
                has_filenames=True,
                has_line_numbers=True,
                has_inline_frames=True,
            )
        return found

    def _function(self, frame: Frame) -> int:
        key = frame.name, frame.file
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = len(self._functions) + 1
            name, file = self._strings.number(frame.name), self._strings.number(frame.file)
            self._profile.function.add(id=found, name=name, system_name=name, filename=file)
        return found
