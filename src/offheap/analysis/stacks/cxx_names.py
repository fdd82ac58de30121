"""Demangled C++ names, made short enough to read and to compare."""

from __future__ import annotations

import re

_QUALIFIERS = ("", "const", "volatile", "&", "&&", "const &", "[clone .cold]")
_BRACKETS = re.compile("[<>]")
_PARENTHESES = re.compile("[()]")
_DEPTH = {"(": 1, "{": 1, "[": 1, "<": 1, ")": -1, "}": -1, "]": -1, ">": -1}
_NOISE = re.compile(r"\[abi:\w+\]|(?<=std::)__(?:1|cxx11|ndk1)::")
_LENGTH = re.compile(r"[1-9]\d{0,3}", re.ASCII)


def without_parameters(name: str) -> str:
    """`Foo::get(int) const` -> `Foo::get`; `(anonymous namespace)::f` stays."""
    end = name.rfind(")")
    if end < 0 or name[end + 1 :].strip() not in _QUALIFIERS:
        return name
    depth = 0
    for match in reversed(list(_PARENTHESES.finditer(name, 0, end + 1))):
        depth += 1 if match[0] == ")" else -1
        if depth == 0:
            head = name[: match.start()]
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


def without_return_type(name: str) -> str:
    """`std::pair<…> app::Pool<…>::take<…>` -> `app::Pool<…>::take<…>`: only templates carry one."""
    depth, start = 0, 0
    # `operator new` and `operator std::string` contain spaces.
    end = name.find("operator")
    for index, character in enumerate(name[: end if end >= 0 else len(name)]):
        depth += _DEPTH.get(character, 0)
        if character == " " and depth == 0:
            start = index + 1
    return name[start:] or name


def without_inner_parameters(name: str) -> str:
    """`f(int)::{lambda(int)#1}::operator()` -> `f::{lambda#1}::operator()`."""
    kept, depth, start = [], 0, 0
    for match in _PARENTHESES.finditer(name):
        if match[0] == "(":
            if depth == 0:
                of_the_name = name.startswith("(anonymous", match.start())
                if of_the_name or name.endswith("operator", 0, match.start()):
                    continue
                kept.append(name[start : match.start()])
            depth += 1
        elif depth:
            depth -= 1
            start = match.end()
    return "".join(kept) + name[start:] if depth == 0 else name


def mangled_prefix(name: str) -> str:
    """`_ZN3app4Pool4takeIiEEvv` -> `app::Pool::take`: the leading plain names, "" if there are none.

    For names that demanglers reject (libstdc++'s fails on some of clang's names with ABI tags).
    Itanium C++ ABI, 5.1.2: N, qualifiers, then St for std and names after their lengths.
    """
    rest, parts = re.sub(r"^_ZN?[rVKRO]*", "", name), []
    if rest.startswith("St"):
        rest, parts = rest[2:], ["std"]
    while match := _LENGTH.match(rest):
        start, length = match.end(), int(match[0])
        part = rest[start : start + length]
        if len(part) < length or not part.isidentifier():
            break
        parts.append(part)
        rest = rest[start + length :]
    return "::".join(parts) if parts and parts != ["std"] else ""


def short(name: str, longest: int = 72) -> str:
    """The name without parameters, ABI tags and inline namespaces of the standard library.

    A name longer than `longest` also loses template arguments and return type, and is then cut.
    """
    if name.startswith("_Z"):
        name = mangled_prefix(name) or name
    name = _NOISE.sub("", without_parameters(name)) or name
    if len(name) > longest and ("<" in name or "(" in name):
        name = without_return_type(without_inner_parameters(without_templates(name)))
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
