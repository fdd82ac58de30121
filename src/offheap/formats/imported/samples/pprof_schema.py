"""The messages of pprof's profile.proto, as classes of Google's protobuf.

The source is github.com/google/pprof/proto/profile.proto: field numbers and types below are its, as far as
they are read here.  The classes are made when they are needed: protobuf is imported for pprof files alone.
"""

from __future__ import annotations

import functools
from typing import Any

from offheap.errors import UserError

# Message -> fields: (name, number, type, repeated).  Types are protobuf's own, or the name of another
# message.
_MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "Profile": (
        ("sample_type", 1, "ValueType", True),
        ("sample", 2, "Sample", True),
        ("mapping", 3, "Mapping", True),
        ("location", 4, "Location", True),
        ("function", 5, "Function", True),
        ("string_table", 6, "string", True),
        ("time_nanos", 9, "int64", False),
        ("duration_nanos", 10, "int64", False),
        ("period_type", 11, "ValueType", False),
        ("period", 12, "int64", False),
        ("comment", 13, "int64", True),
        ("default_sample_type", 14, "int64", False),
    ),
    "ValueType": (("type", 1, "int64", False), ("unit", 2, "int64", False)),
    "Sample": (("location_id", 1, "uint64", True), ("value", 2, "int64", True), ("label", 3, "Label", True)),
    "Label": (("key", 1, "int64", False), ("str", 2, "int64", False), ("num", 3, "int64", False)),
    "Mapping": (
        ("id", 1, "uint64", False),
        ("memory_start", 2, "uint64", False),
        ("memory_limit", 3, "uint64", False),
        ("file_offset", 4, "uint64", False),
        ("filename", 5, "int64", False),
        ("build_id", 6, "int64", False),
    ),
    "Location": (
        ("id", 1, "uint64", False),
        ("mapping_id", 2, "uint64", False),
        ("address", 3, "uint64", False),
        ("line", 4, "Line", True),
    ),
    "Line": (("function_id", 1, "uint64", False), ("line", 2, "int64", False)),
    "Function": (
        ("id", 1, "uint64", False),
        ("name", 2, "int64", False),
        ("system_name", 3, "int64", False),
        ("filename", 4, "int64", False),
    ),
}
_PACKAGE = "offheap.perftools.profiles"  # not pprof's own: another library of the process may have that one


@functools.cache
def profile_class() -> Any:
    """The class of the message Profile; UserError where protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise UserError("pprof files need the Python package protobuf", "pip install protobuf") from None
    described = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "int64": described.TYPE_INT64,
        "uint64": described.TYPE_UINT64,
        # profile.proto says string; a producer's invalid UTF-8 must not make the whole file unreadable.
        "string": described.TYPE_BYTES,
    }
    file = descriptor_pb2.FileDescriptorProto(name="offheap_profile.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        added = file.message_type.add(name=message)
        for name, number, kind, repeated in fields:
            label = described.LABEL_REPEATED if repeated else described.LABEL_OPTIONAL
            one = added.field.add(name=name, number=number, label=label)
            if kind in scalars:
                one.type = scalars[kind]
            else:
                one.type = described.TYPE_MESSAGE
                one.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Profile"))
