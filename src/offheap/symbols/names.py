"""Function names as in symbol tables, and as in source code."""

from __future__ import annotations

import importlib
import re
from functools import cache, lru_cache
from typing import Protocol, cast

import cxxfilt

# A part of a function that the compiler splits off, specialises or moves counts as that function.
_CLONE = re.compile(r"(?<=.)\.(?:cold|hot|part|isra|constprop|lto_priv|localalias|llvm)(?:\.\d+)*(?=\.|$)")
# Rust before its v0 mangling (_R...): an Itanium name that ends in a hash.
_LEGACY_RUST = re.compile(r"17h[0-9a-f]{16}E$")
# A demangled name can be exponentially longer than its mangled form.
_LONGEST_MANGLED = 1 << 14


class _Demangler(Protocol):
    def demangle(self, mangled: str, *, language: str, style: str) -> str: ...


def plain(symbol: str) -> str:
    """A symbol without its version (`malloc@@GLIBC_2.2.5`) and without compiler clone suffixes."""
    return _CLONE.sub("", symbol.partition("@")[0]) if "@" in symbol or "." in symbol else symbol


@lru_cache(maxsize=1 << 14)
def demangle(symbol: str) -> str:
    """C++ and Rust names as in source code; other names, and names that fail, unchanged."""
    if len(symbol) > _LONGEST_MANGLED:
        return symbol
    if symbol.startswith("_R") or (symbol.startswith("_Z") and _LEGACY_RUST.search(symbol)):
        return _portable(symbol, "rust")
    if not symbol.startswith("_Z"):
        return symbol
    try:
        name: str = cxxfilt.demangleb(symbol.encode()).decode("utf-8", "replace")
        return name
    except cxxfilt.LibraryNotFound:  # a container without libstdc++
        return _portable(symbol, "itanium")
    except cxxfilt.Error:  # libstdc++ rejects some of clang's newer names
        return _portable(symbol, "itanium")


def _portable(symbol: str, language: str) -> str:
    library = _library()
    return library.demangle(symbol, language=language, style="gnu") if library else symbol


@cache
def _library() -> _Demangler | None:
    try:
        # Imported when a name needs it: most recordings hold C and C++ only. It needs Python 3.11.
        return cast(_Demangler, importlib.import_module("demangle"))
    except ImportError:
        return None
