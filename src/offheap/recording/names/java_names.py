"""Java methods as people write them, from JVMTI's signatures."""

from __future__ import annotations

import re

from offheap.probe import contract

# Hidden classes carry a run's address or number: `Main$$Lambda$14.0x0000000800066840` (17),
# `Main$$Lambda.0x00007f...` (21), `Main$$Lambda$14/566891196` (11).  Without it the same lambda
# reads the same in every run.
_HIDDEN = re.compile(r"(?:\$\$Lambda(?P<number>\$\d+)?)?[./+](?:0x[0-9a-f]+|\d+)$")
_LAMBDA = "$$Lambda"
_PRIMITIVES = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "V": "void",
    "Z": "boolean",
}


def class_name(signature: str) -> str:
    """`Ljava/util/zip/Inflater;` -> `java.util.zip.Inflater`, `[I` -> `int[]`; "" of nothing."""
    element = signature.lstrip("[")
    dimensions = len(signature) - len(element)
    if element.startswith("L"):
        name = _HIDDEN.sub(lambda m: _LAMBDA if _LAMBDA in m[0] else "", element[1:].removesuffix(";"))
        name = name.replace("/", ".")
    else:
        name = _PRIMITIVES.get(element, element)
    return name + "[]" * dimensions


def method_name(class_signature: str, name: str) -> str:
    """`java.util.zip.Inflater.init`."""
    return f"{class_name(class_signature)}.{name}" if class_signature else name


INEXACT = -4  # as probe/jvm/java_stack.h


def bytecode_index(raw: int) -> int:
    """The bci of a raw Java frame; negative: none, -3 a native method, INEXACT somewhere in compiled code."""
    bci = raw & contract.FRAME_BCI_MASK
    return bci - (contract.FRAME_BCI_MASK + 1) if bci >> 23 else bci
