"""Function names as linkers keep them, and as people wrote them."""

from __future__ import annotations

import re
from functools import lru_cache

import cxxfilt

# The part of a function that the compiler split off, specialised or moved is still that function.
_CLONE = re.compile(r"(?<=.)\.(?:cold|hot|part|isra|constprop|lto_priv|localalias|llvm)(?:\.\d+)*(?=\.|$)")
_LEGACY_RUST = re.compile(r"::h[0-9a-f]{16}$")
_RUST_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$|\.\.")
_RUST_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
# A demangled name can be exponentially longer than its mangled form.
_LONGEST_MANGLED = 1 << 14


def plain(symbol: str) -> str:
    """A symbol without its version (`malloc@@GLIBC_2.2.5`) and without compiler clone suffixes."""
    return _CLONE.sub("", symbol.partition("@")[0]) if "@" in symbol or "." in symbol else symbol


@lru_cache(maxsize=1 << 14)
def demangle(symbol: str) -> str:
    """C++ and Rust names as source code spells them; anything else, or what fails, unchanged."""
    if not symbol.startswith("_Z") or len(symbol) > _LONGEST_MANGLED:
        return symbol
    try:
        name = cxxfilt.demangleb(symbol.encode()).decode("utf-8", "replace")
    except cxxfilt.Error:  # no C++ name, or no libstdc++ on this machine
        return symbol
    return _rust(name) if _LEGACY_RUST.search(name) else name


def _rust(name: str) -> str:
    # Rust before its v0 mangling: an Itanium name plus a hash, with punctuation as $..$ and "..".
    name = _LEGACY_RUST.sub("", name).replace("::_$", "::$")
    return _RUST_ESCAPE.sub(_unescaped, name.removeprefix("_") if name.startswith("_$") else name)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return "::"
    if code not in _RUST_ESCAPES:
        point = int(code[1:], 16)
        return chr(point) if point < 0x110000 else match[0]
    return _RUST_ESCAPES[code]
