"""Names as keyed hashes: equal names have equal hashes under one key, and no hash leads back to its name.

A name of Java is hashed part by part, so that packages and classes stay packages and classes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
from pathlib import Path

from offheap.errors import UserError
from offheap.proc import opening
from offheap.rewriting.public_names import PRIMITIVES, numberless

KEY_BYTES = 32
_LEAST_KEY, _MOST_KEY = 16, 4096  # bytes of a file: shorter ones can be guessed
# 40 bits: in one of 20,000 recordings with 10,000 names, two names have one hash.
_DIGEST_BYTES = 5

# Parts that compilers and HotSpot give to names; digits count what they number.
_GENERATED = re.compile(
    r"<init>|<clinit>|lambda|Lambda|Proxy\d*|access|\d+|(?:Enhancer|FastClass)BySpringCGLIB|SpringCGLIB|ByteBuddy|"
)
_SEPARATOR = re.compile(r"([.$/\[\]]+)")
_ENDINGS = frozenset(
    {".java", ".kt", ".scala", ".groovy", ".clj", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".rs"}
)


def key_of(path: Path) -> bytes:
    """The key in a file.  UserError: it cannot be read, others may read it, or it is too short."""
    mend = f"make one: (umask 077; head -c {KEY_BYTES} /dev/urandom > {path})"
    try:
        with opening.regular(path, most=_MOST_KEY, owners=(os.geteuid(), 0)) as file:
            mode, data = file.status.st_mode, file.read_at(0, _MOST_KEY)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}", mend) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"other users may read {path}", f"chmod 600 {path}")
    if len(data) < _LEAST_KEY:
        raise UserError(f"the key in {path} has {len(data)} bytes, at least {_LEAST_KEY} are needed", mend)
    return hashlib.sha256(data).digest()


class Hashes:
    """The hashes of names under a key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.java = functools.lru_cache(maxsize=1 << 16)(self._java)

    def word(self, text: str) -> str:
        """Ten hexadecimal digits."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=_DIGEST_BYTES, key=self._key).hexdigest()

    def _java(self, name: str) -> str:
        """A class, or a class and method, such as `com.acme.Orders.load`, part by part."""
        return "".join(
            part if at % 2 or _GENERATED.fullmatch(part) or part in PRIMITIVES else f"x{self.word(part)}"
            for at, part in enumerate(_SEPARATOR.split(name))
        )

    def function(self, name: str) -> str:
        """A native function, with its parameters."""
        stub = "@plt" if name.endswith("@plt") else ""
        return f"fn_{self.word(name.removesuffix('@plt'))}{stub}"

    def library(self, base: str) -> str:
        return f"lib_{self.word(base)}.so"

    def file(self, path: str) -> str:
        """A source file: its ending stays."""
        base = path.replace("\\", "/").rpartition("/")[2]
        ending = os.path.splitext(base)[1]
        return f"src_{self.word(base)}{ending if ending in _ENDINGS else ''}" if base else ""

    def thread(self, name: str) -> str:
        """A thread's name; names that differ in numbers only share the hash, followed by the last number."""
        number = re.search(r"\d+\D*$|#[^#]*$", name)
        last = re.match(r"\d+|#", number[0]) if number else None
        return f"thread_{self.word(numberless(name))}" + (f"-{last[0]}" if last else "")
