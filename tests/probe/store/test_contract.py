"""probe/recording.h and its mirror in Python agree, byte for byte and in both directions."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from enum import IntEnum, IntFlag

import numpy as np
import pytest

from harness.native.compiler import compile_c
from harness.paths import PROBE
from offheap.probe import contract
from offheap.probe.live_files import peek

HEADER = (PROBE / "recording.h").read_text()

STRUCTS: dict[str, np.dtype[np.void]] = {
    "header": contract.HEADER,
    "section": contract.SECTION,
    "segment": contract.SEGMENT,
    "module": contract.MODULE,
    "method": contract.METHOD,
    "line": contract.LINE,
    "thread": contract.THREAD,
    "stack": contract.STACK,
    "counters": contract.COUNTERS,
    "value": contract.VALUE,
    "range": contract.RANGE,
    "property": contract.PROPERTY,
}


class StackFlag(IntFlag):
    """Bits of a stack's `flags`, which the file has for readers other than offheap's."""

    TRUNCATED = 1
    INCOMPLETE = 2


# enum in C -> (prefix of its constants, class in Python)
ENUMS: dict[str, tuple[str, type[IntEnum] | type[IntFlag]]] = {
    "state": ("", contract.State),
    "mode": ("", contract.Mode),
    "entry": ("", contract.Entry),
    "section_id": ("", contract.Section),
    "loss": ("", contract.Loss),
    "coverage": ("", contract.Coverage),
    "java_heap": ("JAVA_HEAP_", contract.JavaHeapState),
    "frame_kind": ("FRAME_", contract.FrameKind),
    "method_state": ("METHOD_", contract.MethodState),
    "stack_kind": ("", contract.StackKind),
    "stack_flags": ("STACK_", StackFlag),
}

CONSTANTS = {
    "VERSION": contract.VERSION,
    "HEADER_BYTES": contract.HEADER_BYTES,
    "FRAME_KIND_SHIFT": contract.FRAME_KIND_SHIFT,
    "FRAME_MODULE_SHIFT": contract.FRAME_MODULE_SHIFT,
    "FRAME_ADDRESS_MASK": contract.FRAME_ADDRESS_MASK,
    "FRAME_METHOD_SHIFT": contract.FRAME_METHOD_SHIFT,
    "GAP_UNWINDER": contract.GAP_UNWINDER,
    "OBJECT_KEY": contract.OBJECT_KEY,
    "OBJECT_SHIFT": contract.OBJECT_SHIFT,
    "OBJECT_NUMBER_MASK": contract.OBJECT_NUMBER_MASK,
    "JAVA_CODE": contract.JAVA_CODE,
    "VALUE_SIZE_MASK": contract.VALUE_SIZE_MASK,
    "VALUE_INTERVAL_SHIFT": contract.VALUE_INTERVAL_SHIFT,
    "VALUE_THREAD_SHIFT": contract.VALUE_THREAD_SHIFT,
    "LOSSES": contract.LOSSES,
    "SEGMENTS": contract.SEGMENTS,
    "SECTIONS": len(contract.Section),
    "HOOK_COUNT": len(contract.HOOKS),
}


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def members(struct: str) -> list[str]:
    """Names of the members of a struct, in the order of the header's text."""
    body = re.search(rf"struct offheap_{struct} \{{(.*?)\n?\}};", without_comments(HEADER), re.DOTALL)
    assert body, f"no struct offheap_{struct}"
    return re.findall(r"(\w+)(?:\[\w+\])?;", body[1])


def constants(enum: str) -> list[str]:
    body = re.search(rf"enum offheap_{enum} \{{(.*?)\}};", without_comments(HEADER), re.DOTALL)
    assert body, f"no enum offheap_{enum}"
    return re.findall(r"\bOFFHEAP_(\w+)\s*(?:=[^,]*)?(?:,|$)", body[1].strip())


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, int]:
    """The C compiler's values: sizes, offsets, constants."""
    lines = []
    for struct in STRUCTS:
        name = f"struct offheap_{struct}"
        lines.append(f'P("{struct}", sizeof({name}));')
        for member in members(struct):
            lines.append(f'P("{struct}.{member}", offsetof({name}, {member}));')
            lines.append(f'P("{struct}.{member} bytes", sizeof((({name} *)0)->{member}));')
    for enum in ENUMS:
        lines += [f'P("{name}", OFFHEAP_{name});' for name in constants(enum)]
    lines += [f'P("{name}", OFFHEAP_{name});' for name in CONSTANTS]
    lines += [f'P("hook {name}", OFFHEAP_HOOK_{name});' for name in contract.HOOKS]
    folder = tmp_path_factory.mktemp("contract")
    source = folder / "contract.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include <recording.h>\n"
        '#define P(name, value) printf("%s=%llu\\n", name, (unsigned long long)(value))\n'
        "int main(void) {\n" + "\n".join(lines) + '\nprintf("magic=%d\\n", '
        'memcmp(OFFHEAP_MAGIC, "OFFHEAP\\n", 8) == 0 && sizeof OFFHEAP_MAGIC == 9);\nreturn 0;\n}\n'
    )
    program = compile_c([source], folder / "contract")
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split("=") for line in printed.splitlines())}


@pytest.mark.parametrize("struct", STRUCTS)
def test_struct(struct: str, in_c: Mapping[str, int]) -> None:
    dtype = STRUCTS[struct]
    assert dtype.itemsize == in_c[struct]
    assert dtype.fields is not None
    assert list(dtype.fields) == members(struct)
    for name, (its, offset, *_) in dtype.fields.items():
        assert offset == in_c[f"{struct}.{name}"], name
        assert its.itemsize == in_c[f"{struct}.{name} bytes"], name


@pytest.mark.parametrize("enum", ENUMS)
def test_enum(enum: str, in_c: Mapping[str, int]) -> None:
    prefix, mirror = ENUMS[enum]
    # A count, which ends some enums, is compared as a constant.
    names = [name for name in constants(enum) if name not in CONSTANTS]
    assert {f"{prefix}{value.name}": int(value) for value in mirror} == {name: in_c[name] for name in names}


def test_every_struct_and_enum_of_the_header_is_mirrored() -> None:
    text = without_comments(HEADER)
    assert set(re.findall(r"struct offheap_(\w+) \{", text)) == set(STRUCTS)
    assert set(re.findall(r"enum offheap_(\w+) \{", text)) == {*ENUMS, "hook"}


def test_constants(in_c: Mapping[str, int]) -> None:
    assert {name: in_c[name] for name in CONSTANTS} == CONSTANTS
    assert in_c["magic"] == 1
    assert contract.MAGIC == b"OFFHEAP\n"


def test_hooks(in_c: Mapping[str, int]) -> None:
    assert [in_c[f"hook {name}"] for name in contract.HOOKS] == list(range(len(contract.HOOKS)))
    assert re.findall(r"^ +OFFHEAP_HOOK\((\w+)\)", HEADER, re.MULTILINE) == list(contract.HOOKS)


def test_rows_of_sections() -> None:
    assert set(contract.ROWS) == set(contract.Section)


def test_the_first_bytes_are_where_the_contract_has_them() -> None:
    """peek.py reads a few fields with its own struct, which must not drift from the header."""
    fields = ("magic", "version", "header_bytes", "file_bytes", "state", "mode", "entry", "coverage")
    row = np.zeros(1, contract.HEADER)
    row["magic"] = peek.MAGIC
    for value, name in enumerate(fields[1:], 1):
        row[name] = value
    assert peek.HEADER.unpack(row.tobytes()[: peek.HEADER.size]) == (peek.MAGIC, *range(1, len(fields)))
    assert (peek.RECORDING, peek.PRELOAD) == (contract.State.RECORDING, contract.Entry.PRELOAD)
    assert peek.SHORT_OF_MEMORY == contract.Coverage.SHORT_OF_MEMORY
