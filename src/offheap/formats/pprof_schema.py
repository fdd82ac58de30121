"""pprof's messages, as github.com/google/pprof/proto/profile.proto numbers their fields.

No package on PyPI has the classes, so protobuf makes them from the description here.
"""

from __future__ import annotations

import functools
from typing import Any

# message -> field -> (number, type); "*" before a type: repeated; a type may be the name of a message.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ValueType": {"type": (1, "int64"), "unit": (2, "int64")},
    "Label": {"key": (1, "int64"), "str": (2, "int64"), "num": (3, "int64"), "num_unit": (4, "int64")},
    "Sample": {"location_id": (1, "*uint64"), "value": (2, "*int64"), "label": (3, "*Label")},
    "Mapping": {
        "id": (1, "uint64"),
        "memory_start": (2, "uint64"),
        "memory_limit": (3, "uint64"),
        "file_offset": (4, "uint64"),
        "filename": (5, "int64"),
        "build_id": (6, "int64"),
        "has_functions": (7, "bool"),
        "has_filenames": (8, "bool"),
        "has_line_numbers": (9, "bool"),
        "has_inline_frames": (10, "bool"),
    },
    "Line": {"function_id": (1, "uint64"), "line": (2, "int64"), "column": (3, "int64")},
    "Location": {
        "id": (1, "uint64"),
        "mapping_id": (2, "uint64"),
        "address": (3, "uint64"),
        "line": (4, "*Line"),
        "is_folded": (5, "bool"),
    },
    "Function": {
        "id": (1, "uint64"),
        "name": (2, "int64"),
        "system_name": (3, "int64"),
        "filename": (4, "int64"),
        "start_line": (5, "int64"),
    },
    "Profile": {
        "sample_type": (1, "*ValueType"),
        "sample": (2, "*Sample"),
        "mapping": (3, "*Mapping"),
        "location": (4, "*Location"),
        "function": (5, "*Function"),
        # profile.proto says string: a producer's invalid UTF-8 must not make a whole file unreadable.
        "string_table": (6, "*bytes"),
        "drop_frames": (7, "int64"),
        "keep_frames": (8, "int64"),
        "time_nanos": (9, "int64"),
        "duration_nanos": (10, "int64"),
        "period_type": (11, "ValueType"),
        "period": (12, "int64"),
        "comment": (13, "*int64"),
        "default_sample_type": (14, "int64"),
        "doc_url": (15, "int64"),
    },
}


def profile_class() -> Any:
    """The class of the message Profile."""
    return message_class("Profile")


@functools.cache
def message_class(name: str) -> Any:
    """The class of a message of profile.proto."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"perftools.profiles.{name}"))


@functools.cache
def _pool() -> Any:
    """Importing protobuf takes 30 ms."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    # A pool of its own: another library of the process may have a file of this name.
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package="perftools.profiles", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            repeated, kind = kind.startswith("*"), kind.removeprefix("*")
            one = message.field.add(name=field_name, number=number)
            one.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind in _MESSAGES:
                one.type, one.type_name = field.TYPE_MESSAGE, f".perftools.profiles.{kind}"
            else:
                one.type = field.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
