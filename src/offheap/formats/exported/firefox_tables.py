"""The Firefox Profiler's shared tables: a column is an array, a row has one place in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offheap.formats.exported.content.call_tree import CallTree
from offheap.formats.exported.content.samples import text
from offheap.recording.model import Frame, Recording

# The first grey one is that of frames without a category.
CATEGORIES: list[dict[str, Any]] = [
    {"name": name, "color": color, "subcategories": ["Other"]}
    for name, color in (
        ("Other", "grey"),
        ("Java", "green"),
        ("Native", "blue"),
        ("JVM", "orange"),
        ("Kernel", "red"),
        ("Class", "yellow"),
    )
]
_CATEGORY = {"java": 1, "native": 2, "jvm": 3, "kernel": 4, "class": 5}
_LIBRARY = 1  # a resource's type
_INTERVAL = 1  # a marker's phase: it has a start and an end
_NONE = -1


class _Table:
    """Rows by key, each column an array."""

    def __init__(self, *columns: str) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in columns}
        self.numbers: dict[Any, int] = {}
        self.length = 0

    def number(self, key: object, *row: object) -> int:
        number = self.numbers.setdefault(key, self.length)
        if number == self.length:
            self.append(*row)
        return number

    def append(self, *row: object) -> None:
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)
        self.length += 1

    def written(self) -> dict[str, Any]:
        return {**self.columns, "length": self.length}


def shared(
    recording: Recording, tree: CallTree
) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """(libs, shared, the markers of garbage collections)."""
    made = _Shared(recording)
    for call, parent in tree.nodes:
        made.node(tree.calls[call], parent)
    # A node of the tree is several stacks where functions were inlined.
    tree.leaves = [made.leaves[leaf] if leaf >= 0 else _NONE for leaf in tree.leaves]
    markers = made.collections(recording)
    return made.libraries, made.written(), markers


class _Shared:
    def __init__(self, recording: Recording) -> None:
        self.strings: dict[str, int] = {}
        self.stacks = _Table("frame", "prefix")
        self.frames = _Table(
            "address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID",
            "line", "column",
        )  # fmt: skip
        self.functions = _Table(
            "name", "isJS", "relevantForJS", "resource", "source", "lineNumber", "columnNumber"
        )
        self.resources = _Table("lib", "name", "host", "type")
        self.sources = _Table("id", "filename", "startLine", "startColumn", "sourceMapURL")
        self.libraries: list[dict[str, Any]] = []
        self.leaves: list[int] = []
        self._modules: dict[str, int] = {}
        for module in recording.modules:
            name = text(module.path.rpartition("/")[2])
            if name not in self._modules:
                self._modules[name] = len(self.libraries)
                path = text(module.path)
                self.libraries.append(
                    {
                        "arch": "",
                        "name": name,
                        "path": path,
                        "debugName": name,
                        "debugPath": path,
                        "breakpadId": _breakpad(module.build_id),
                        "codeId": text(module.build_id) or None,
                    }
                )

    def node(self, call: Sequence[Frame], parent: int) -> None:
        prefix = self.leaves[parent] if parent >= 0 else None
        for depth, frame in enumerate(reversed(call)):
            self.stacks.append(self._frame(frame, depth), prefix)
            prefix = self.stacks.length - 1
        assert prefix is not None
        self.leaves.append(prefix)

    def collections(self, recording: Recording) -> dict[str, Any]:
        table = _Table("data", "name", "startTime", "endTime", "phase", "category")
        known = recording.collections
        for kind, begun, ended in zip(
            known.kinds if known else (),
            known.begun.tolist() if known else (),
            known.ended.tolist() if known else (),
            strict=True,
        ):
            name = self.string(f"{kind} collection")
            row = ({"type": "collection"}, name, begun * 1000, max(begun, ended) * 1000, _INTERVAL, 0)
            table.append(*row)
        return table.written()

    def string(self, name: str) -> int:
        return self.strings.setdefault(text(name), len(self.strings))

    def written(self) -> dict[str, Any]:
        symbols = _Table("libIndex", "address", "name", "functionSize")
        return {
            "stackTable": self.stacks.written(),
            "frameTable": self.frames.written(),
            "funcTable": self.functions.written(),
            "resourceTable": self.resources.written(),
            "nativeSymbols": symbols.written(),
            "sources": self.sources.written(),
            "stringArray": list(self.strings),
        }

    def _frame(self, frame: Frame, depth: int) -> int:
        category, line = _CATEGORY.get(frame.kind, 0), frame.line or None
        function = self._function(frame)
        row = (_NONE, depth, category, 0, function, None, None, line, None)
        return self.frames.number((function, category, depth, line), *row)

    def _function(self, frame: Frame) -> int:
        source = None
        if frame.file:
            file = self.string(frame.file)
            source = self.sources.number(file, None, file, 1, 1, None)
        resource = self._resource(frame.module)
        key = name, _, _ = self.string(frame.name), resource, source
        return self.functions.number(key, name, False, False, resource, source, None, None)

    def _resource(self, module: str) -> int:
        known = self._modules.get(text(module)) if module else None
        if known is None:
            return _NONE
        return self.resources.number(known, known, self.string(module), None, _LIBRARY)


def _breakpad(build_id: str) -> str:
    """The build-id's first 16 bytes as a GUID, whose first three numbers have the other byte order, and 0."""
    try:
        head = bytes.fromhex(build_id)[:16].ljust(16, b"\0")
    except ValueError:
        return ""
    swapped = head[3::-1] + head[5:3:-1] + head[7:5:-1] + head[8:]
    return f"{swapped.hex().upper()}0" if build_id else ""
