"""The JVM's "modified UTF-8" (JVM specification 4.4.7): names of classes, methods and files."""

from __future__ import annotations

import codecs


def decode(raw: bytes) -> str:
    """The text of any bytes: invalid modified UTF-8 becomes U+FFFD; the result has no lone surrogates."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "offheap.modified-utf-8")
    # Characters beyond U+FFFF are two surrogates of three bytes each.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _other_forms(error: UnicodeError) -> tuple[str, int]:
    """Decodes forms that only modified UTF-8 has: NUL as C0 80, surrogates."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    at = error.object[error.start : error.start + 3]
    if at[:2] == b"\xc0\x80":
        return "\0", error.start + 2
    if len(at) == 3 and at[0] == 0xED and 0xA0 <= at[1] <= 0xBF and 0x80 <= at[2] <= 0xBF:
        return chr((at[0] & 0xF) << 12 | (at[1] & 0x3F) << 6 | at[2] & 0x3F), error.start + 3
    return "\ufffd", error.end


codecs.register_error("offheap.modified-utf-8", _other_forms)
