"""OpenTelemetry profiles: an ExportProfilesServiceRequest, as a collector takes it, a profile for each value.

Schema: opentelemetry/proto/profiles/v1development/profiles.proto.  Entry 0 of each table is the zero value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from operator import add
from typing import Any

from offheap import __version__
from offheap.formats.exported.content.samples import VALUES, Samples, at_most_64_bits, nanoseconds, text
from offheap.formats.exported.content.span import Span, whole
from offheap.recording.model import Frame, Module

_FRAME_TYPES = {"native": "native", "jvm": "native", "java": "jvm", "class": "jvm", "kernel": "kernel"}


def otlp(samples: Samples, span: Span | None = None, resource: Mapping[str, str] | None = None) -> bytes:
    """`span`: None for the whole recording; `resource`: attributes that go before ours of the same key."""
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service

    request: Any = service.ExportProfilesServiceRequest()
    tables = _Tables(request.dictionary, samples.modules())
    profiles = request.resource_profiles.add()
    info = samples.recording.info
    span = span or whole(info)
    facts = {
        "service.name": info.program or "unknown_service:java",
        "process.runtime.version": info.java_version,
        "telemetry.profiler.name": "offheap",
        "telemetry.profiler.version": __version__,
        **(resource or {}),
    }
    for key, fact in facts.items():
        if fact:
            profiles.resource.attributes.add(key=key).value.string_value = text(fact)
    profiles.resource.attributes.add(key="process.pid").value.int_value = at_most_64_bits(info.pid)
    if info.coverage:
        lacks = profiles.resource.attributes.add(key="offheap.coverage").value.array_value
        for sentence in info.coverage:
            lacks.values.add(string_value=text(sentence))
    scope = profiles.scope_profiles.add()
    scope.scope.name, scope.scope.version = "offheap", __version__
    columns = span.columns()
    # Calls of one line at several addresses are one location here.
    merged: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for place, part in samples.parts():
        values = [part.values[column] for column in columns]
        if any(values):
            attributes = tuple(_attributes(tables, samples, place, part.thread))
            sums = merged.setdefault((tables.stack(samples, place), attributes), [0] * len(values))
            sums[:] = map(add, sums, values)
    start, duration = nanoseconds(span.start), nanoseconds(span.duration)
    period = max(at_most_64_bits(info.interval_bytes), 1)  # 1: each byte was recorded
    for column, value in enumerate(span.values):
        profile = scope.profiles.add(time_unix_nano=start, duration_nano=duration, period=period)
        profile.sample_type.type_strindex = tables.string(value)
        profile.sample_type.unit_strindex = tables.string(VALUES[value])
        profile.period_type.type_strindex = tables.string("space")
        profile.period_type.unit_strindex = tables.string("bytes")
        # Equal recordings give equal files, and the four profiles of one recording have different ids.
        identity = f"{info.start} {info.pid} {info.duration_seconds} {value}"
        profile.profile_id = hashlib.blake2b(identity.encode(), digest_size=16).digest()
        for (stack, attributes), values in merged.items():
            if values[column] > 0:
                profile.samples.add(stack_index=stack, attribute_indices=attributes, values=[values[column]])
    return bytes(request.SerializeToString())


def _attributes(tables: _Tables, samples: Samples, place: int, thread: str) -> list[int]:
    facts = {
        "thread.name": thread,
        "offheap.kind": samples.kind(place),
        "offheap.verdict": samples.verdicts[place],
    }
    return [tables.attribute(key, fact) for key, fact in facts.items() if fact]


class _Tables:
    def __init__(self, dictionary: Any, modules: dict[str, Module]) -> None:
        self._dictionary = dictionary
        self._numbers: dict[tuple[str, Hashable], int] = {}
        for name in ("mapping", "location", "function", "link", "attribute", "stack"):
            getattr(dictionary, f"{name}_table").add()
        dictionary.string_table.append("")
        self._numbers["string", ""] = 0
        self._modules = modules

    def string(self, name: str) -> int:
        known = text(name)
        return self._entry("string", known, lambda table: table.append(known))

    def attribute(self, key: str, fact: str) -> int:
        def add(table: Any) -> None:
            table.add(key_strindex=self.string(key)).value.string_value = text(fact)

        return self._entry("attribute", (key, fact), add)

    def stack(self, samples: Samples, place: int) -> int:
        locations = tuple(self._location(tuple(call)) for call in samples.calls(place))
        return self._entry("stack", locations, lambda table: table.add(location_indices=locations))

    def _mapping(self, name: str) -> int:
        module = self._modules.get(name)
        if module is None:
            return 0

        def add(table: Any) -> None:
            key = "process.executable.build_id.gnu"
            table.add(
                memory_start=module.start,
                memory_limit=module.end,
                filename_strindex=self.string(module.path),
                attribute_indices=[self.attribute(key, module.build_id)] if module.build_id else [],
            )

        return self._entry("mapping", module.path, add)

    def _location(self, call: tuple[Frame, ...]) -> int:
        def add(table: Any) -> None:
            module = self._mapping(call[-1].module)
            kind = _FRAME_TYPES.get(call[-1].kind)
            kinds = [self.attribute("profile.frame.type", kind)] if kind else []
            location = table.add(mapping_index=module, attribute_indices=kinds)
            for frame in call:
                location.lines.add(function_index=self._function(frame), line=frame.line)

        return self._entry("location", call, add)

    def _function(self, frame: Frame) -> int:
        def add(table: Any) -> None:
            name, file = self.string(frame.name), self.string(frame.file)
            table.add(name_strindex=name, filename_strindex=file)

        return self._entry("function", (frame.name, frame.file), add)

    def _entry(self, name: str, key: Hashable, add: Callable[[Any], object]) -> int:
        found = self._numbers.get((name, key))
        if found is None:
            table = getattr(self._dictionary, f"{name}_table")
            found = self._numbers[name, key] = len(table)
            add(table)
            # `add` may have put entries of other tables, never of this one.
            assert len(table) == found + 1
        return found
