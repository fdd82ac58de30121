"""Demangled C++ names, made short enough to read and to compare."""

from __future__ import annotations

import re

_QUALIFIERS = ("", "const", "volatile", "&", "&&", "const &", "[clone .cold]")
_BRACKETS = re.compile("[<>]")


def without_parameters(name: str) -> str:
    """`Foo::get(int) const` -> `Foo::get`; `(anonymous namespace)::f` stays."""
    end = name.rfind(")")
    if end < 0 or name[end + 1 :].strip() not in _QUALIFIERS:
        return name
    depth = 0
    for index in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(name[index], 0)
        if depth == 0:
            head = name[:index]
            return head if head and not head.endswith("operator") else name
    return name


def without_templates(name: str) -> str:
    """`std::map<int, Foo<long> >::insert` -> `std::map<…>::insert`."""
    kept, depth, start = [], 0, 0
    for match in _BRACKETS.finditer(name):
        index, bracket = match.start(), match[0]
        if name[max(index - 9, 0) : index].rstrip("<>=-").endswith("operator"):
            continue
        if bracket == "<":
            if depth == 0:
                kept.append(name[start:index])
                kept.append("<…>")
            depth += 1
        elif depth:
            depth -= 1
            start = index + 1
    if depth == 0:
        kept.append(name[start:])
    return "".join(kept)


def short(name: str, longest: int = 72) -> str:
    """The name without parameters; without template arguments, then cut, where it is longer than that."""
    name = without_parameters(name)
    if len(name) > longest and "<" in name:
        name = without_templates(name)
    if len(name) > longest:
        name = f"{name[: longest // 2]}…{name[-longest // 2 :]}"
    return name


def is_standard(name: str) -> bool:
    """Whether the function itself is of the C++ standard library; mangled names too."""
    if name.startswith("_Z"):
        return name.startswith(
            ("_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_ZN10__cxxabiv1")
        )
    if "std::" not in name and "__gnu_cxx::" not in name and "__cxxabiv1::" not in name:
        return False
    plain = without_templates(name)
    head = plain.partition("(")[0] or plain
    return head.rpartition(" ")[2].lstrip("*&").startswith(("std::", "__gnu_cxx::", "__cxxabiv1::")) or (
        plain.startswith("decltype")
    )
