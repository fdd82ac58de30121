"""Function names of other profilers as frames: native, or Java as `java.util.zip.Inflater.init`."""

from __future__ import annotations

import re

from offheap.recording.model import Frame, Kind
from offheap.symbols.names import demangle, plain

# java/util/zip/Inflater.init, java.util.zip.Inflater.<init>, Main.lambda$main$0, with or without a signature.
_PART = r"[^\W\d][\w$]*"
_JAVA = re.compile(
    rf"(?P<class>(?:{_PART}/)+{_PART}|(?:[a-z]\w*\.)+[A-Z][\w$]*|[\w$]*\$\$Lambda)"
    r"\.(?P<method><init>|<clinit>|[^\W\d][\w$]*)(?P<signature>\(.*)?"
)
# Addresses and counters of hidden classes: the same lambda has another one in every run.
_LAMBDA = re.compile(r"\$\$Lambda(?:\$\d+)?[./+](?:0x[0-9a-f]+|\d+)(?=\.|$)")
_HIDDEN = re.compile(r"[./+]0x[0-9a-f]+(?=\.[^\W\d])")
_LIBRARY = re.compile(r"(?:^|/)(lib[^/\s]*\.so(?:\.\d+)*|[^/\s]+\.so(?:\.\d+)*)(?:\+0x[0-9a-f]+)?$")
# The version of a symbol, and the address that jeprof adds where a name has two.
_VERSION = re.compile(r"@@?[A-Z][A-Z_]*[\d.]*(?:<[0-9a-f]+>)?$")
# What async-profiler's `ann` option appends: interpreted, compiled (j, 1: by C1), inlined; kernel.
_ANNOTATION = re.compile(r"_\[([0ijk1])\]$")
_KINDS: dict[str, Kind] = {"0": "java", "i": "java", "j": "java", "1": "java", "k": "kernel"}


def frame(name: str, module: str = "", file: str = "", line: int = 0, inlined: bool = False) -> Frame:
    """A frame; the form of the name tells its kind if nothing else does."""
    name = name.strip() or "unknown function"
    annotation = _ANNOTATION.search(name)
    kind: Kind = "native"
    if annotation:
        name = name[: annotation.start()] or name
        kind = _KINDS[annotation[1]]
        inlined = inlined or annotation[1] == "i"
    # Go writes runtime/pprof.Lookup, which has the form of a Java method.
    if kind != "kernel" and "::" not in name and not file.endswith(".go") and not _LIBRARY.search(name):
        dotted = _HIDDEN.sub("", _LAMBDA.sub("$$Lambda", name))
        if match := _JAVA.fullmatch(dotted):
            dotted, kind = f"{match['class']}.{match['method']}", "java"
        if kind == "java":
            return Frame(dotted.replace("/", "."), kind, module, file, line, inlined)
    library = _LIBRARY.search(name)
    if library and not module:
        module = library[1]
    if kind == "native" and module == "libjvm.so":
        kind = "jvm"
    plainly = demangle(plain(name)) if name.startswith("_") else _VERSION.sub("", name)
    return Frame(plainly, kind, module, file, line, inlined)
