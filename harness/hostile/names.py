"""Names that steer terminals, pages, spreadsheets and parsers, as far as they may be given."""

from __future__ import annotations

import re
import struct
import unicodedata

# The JVM refuses . ; [ / in the name of a class, and < and > in that of a method, too (JVMS 4.2.2). So tabs
# stand for the blanks of a tag, and control sequences have one byte (ESC c resets, U+009B is CSI).
CLASS = "=Evil<img\tsrc=x\tonerror=hacked=1>\"'\x1bc\x9b2J\x07\r\n\u202egpj\u2066\u2028"
METHOD = "@leak|'cmd'!A0&\"\x1bc\x9b2J\x07\n\u202e`$(x)`"
FILE = "</script><script>hacked=1</script>\x1b[2J\u202e.java"
# The kernel keeps the first 15 bytes.
THREAD = "\x1b[2J\x07\u202e<b>evil"
TAGS = "</script><i>\x1b]"
PARKED = "\x1b]0;park\u2066"
ARGUMENT = "-Devil=</script><script>hacked=1</script>\x1b]0;owned\x07\u202e\n::error::x"
FOLDER = "evil\x1b]0;owned\x07\r\n\u202e<img src=x onerror=hacked=1>"
# A reader that takes \r for the end of a line sees a mapping at 4096, which ends before all others.
MAPPED = "map\x1b[2J\r00001000-00002000 r-xp 00000000 00:00 0 libjvm.so"
# A reader that takes the vertical tab for the end of a line sees another user.
PROCESS = "\x0bUid:1 4711\x1b"
VERSION = "21.\x1b[m"

# The names as people see them, written out so that the code under test has no say.
SHOWN = {
    CLASS: "=Evil<img\\x09src=x\\x09onerror=hacked=1>\"'\\x1bc\\x9b2J\\x07\\x0d\\x0a\\u202egpj\\u2066\\u2028",
    METHOD: "@leak|'cmd'!A0&\"\\x1bc\\x9b2J\\x07\\x0a\\u202e`$(x)`",
    FILE: "script>\\x1b[2J\\u202e.java",  # after the last slash, as of a path
    THREAD: "\\x1b[2J\\x07\\u202e<b>evil",
    TAGS: "</script><i>\\x1b]",
    PARKED: "\\x1b]0;park\\u2066",
    ARGUMENT: "-Devil=</script><script>hacked=1</script>\\x1b]0;owned\\x07\\u202e\\x0a::error::x",
    FOLDER: "evil\\x1b]0;owned\\x07\\x0d\\x0a\\u202e<img src=x onerror=hacked=1>",
    MAPPED: "map\\x1b[2J\\x0d00001000-00002000 r-xp 00000000 00:00 0 libjvm.so",
    PROCESS: "\\x0bUid:1 4711\\x1b",
    VERSION: "21.\\x1b[m",
}
SITE = f"{CLASS}.{METHOD}"
SHOWN[SITE] = f"{SHOWN[CLASS]}.{SHOWN[METHOD]}"
# The names as the page writes them.
ON_PAGE = {
    name: re.sub(r"\\(x..|u....)", lambda found: f"\\u{{{int(found[1][1:], 16):x}}}", text)
    for name, text in SHOWN.items()
}


def steering(text: str) -> str:
    """What must not be in the text: controls but line feeds, format characters, separators, surrogates."""
    wrong = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return "".join(sorted(wrong))


def renamed(code: bytes, names: dict[str, str]) -> bytes:
    """The class file with other texts in its constant pool (JVMS 4.4)."""
    sizes = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}
    (count,) = struct.unpack_from(">H", code, 8)
    written, at, number = bytearray(code[:10]), 10, 1
    while number < count:
        tag = code[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", code, at + 1)
            text = code[at + 3 : at + 3 + length].decode()
            new = names.get(text, text).encode()
            written += struct.pack(">BH", 1, len(new)) + new
            at += 3 + length
        else:
            written += code[at : at + 1 + sizes[tag]]
            at += 1 + sizes[tag]
        number += 2 if tag in (5, 6) else 1
    return bytes(written) + code[at:]
