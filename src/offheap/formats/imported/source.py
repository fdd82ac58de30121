"""Opens the files of other tools: regular ones alone, plain or compressed, within limits.

The first bytes identify gzip (RFC 1952) and Zstandard (RFC 8878); such files are decompressed as they are
read.
"""

from __future__ import annotations

import importlib
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from offheap.errors import UserError
from offheap.proc import opening
from offheap.quantities import format_size
from offheap.recording import allowance

HEAD = 64 << 10  # bytes by which a format is recognised
# What is kept of a text takes at most this many times its size of memory: a text has at most 128 MiB at the
# default limit.  A Memcheck log of a large JVM has 50 MB.
TIMES_TEXT = 8
# A binary file that is decompressed into memory, and read in parts from there.
_TIMES_BINARY = 2
# Bytes of an event log after decompression, which is read in parts: 5 minutes at 100 MB/s, so that a
# compressed file of a few kilobytes cannot keep the reader busy for hours.
MOST_STREAMED = 32 << 30
PART = 4 << 20  # bytes of an event log that are in memory at one time
LONGEST_LINE = 1 << 20  # bytes: a call path of 2,048 frames with long names has 400 kB

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_READ = 1 << 20  # bytes of a compressed file at one time


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...


@dataclass(frozen=True)
class WholeLines:
    """Whole lines of a file; `line` is the first one's number; `cut`: the file ends inside the last."""

    data: bytes
    line: int
    cut: bool = False


def fault(path: Path, place: str, what: str, mend: str = "is the file complete?  Copy it again") -> UserError:
    """For a file that contradicts its format; `place` is "line 7" or "byte 0x40"."""
    return UserError(f"{path}, {place}: {what}", mend)


def modified(path: Path) -> float:
    """When the file was last written, seconds since the epoch."""
    try:
        return opening.status(path).st_mtime
    except OSError as error:
        raise _unreadable(path, error) from None


def plain(head: bytes) -> bytes:
    """The beginning of a file after decompression, from its first bytes; b"" when they are damaged."""
    if not head.startswith((_GZIP, _ZSTD)):
        return head
    try:
        decompressor = _Gunzip() if head.startswith(_GZIP) else _zstd(Path("the file"))
        return decompressor.decompress(head, HEAD)
    except Exception:  # with any error of the decompressor no format is recognised
        return b""


def head(path: Path) -> bytes:
    """The first HEAD bytes of a file, after decompression."""
    with _Reader(path) as reader:
        return reader.read(HEAD)


def whole(path: Path, times: int = TIMES_TEXT) -> bytes:
    """All of a file, after decompression; UserError when `times` its size is more memory than reading may
    take.
    """
    most = allowance.limit() // times
    with _Reader(path) as reader:
        pieces = io.BytesIO()  # its value is no copy
        while piece := reader.read(PART):
            pieces.write(piece)
            if pieces.tell() > most:
                raise _beyond(path, most, times)
        return pieces.getvalue()


def text(path: Path) -> str:
    """A whole text; bytes that are no UTF-8 become U+FFFD."""
    return whole(path).decode("utf-8", "replace")


def lines(path: Path, times: int = TIMES_TEXT) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers from 1; after a newline at the end comes an empty line.

    One line is in memory at a time, since a text of short lines takes 30 times its size as a list of them.
    UserError when `times` its size is more memory than reading may take.  Bytes that are no UTF-8 become
    U+FFFD.
    """
    number, cut = 0, False
    for part in parts(path, times):
        cut = part.cut
        for number, line in enumerate(io.BytesIO(part.data), part.line):
            yield number, line[:-1].decode("utf-8", "replace")
    if not cut:
        yield number + 1, ""


class RandomAccess:
    """A file that is read at any place; a compressed one is decompressed into memory, within its limit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data: bytes | None = None
        try:
            self._file = opening.regular(path)
            if self._file.read_at(0, 4).startswith((_GZIP, _ZSTD)):
                self._file.close()
                self._data = whole(path, _TIMES_BINARY)
        except OSError as error:
            raise _unreadable(path, error) from None
        self.size = self._file.status.st_size if self._data is None else len(self._data)

    def __enter__(self) -> RandomAccess:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read_at(self, offset: int, size: int) -> bytes:
        """`size` bytes; fewer at the end of the file only."""
        if self._data is not None:
            return self._data[offset : offset + size]
        pieces = bytearray()
        try:
            while len(pieces) < size:  # each read has a limit of time
                piece = self._file.read_at(offset + len(pieces), min(size - len(pieces), PART))
                if not piece:
                    break
                pieces += piece
        except OSError as error:
            raise _unreadable(self.path, error) from None
        return bytes(pieces)


def parts(path: Path, times: int = 0) -> Iterator[WholeLines]:
    """All lines of a file, about PART bytes at a time.  UserError for a line above LONGEST_LINE.

    times  of a text as `whole` has it; 0: an event log, which has at most MOST_STREAMED
    """
    line, rest, total = 1, b"", 0
    most = allowance.limit() // times if times else MOST_STREAMED
    with _Reader(path) as reader:
        while piece := reader.read(PART):
            total += len(piece)
            if total > most and times:
                raise _beyond(path, most, times)
            if total > most:
                raise fault(
                    path, f"line {line}", f"more than {MOST_STREAMED >> 30} GiB", "import a part of it"
                )
            data = rest + piece if rest else piece
            end = data.rfind(b"\n") + 1
            if len(data) - end > LONGEST_LINE:
                raise fault(path, f"line {line + data.count(10)}", f"longer than {LONGEST_LINE >> 20} MiB")
            if end:
                yield WholeLines(data[:end], line)
                line += data.count(b"\n")
            rest = data[end:]
        if rest:
            yield WholeLines(rest + b"\n", line, cut=True)


def _beyond(path: Path, most: int, times: int) -> UserError:
    return UserError(
        f"{path} has more than {format_size(most)}, which need {times} times as much memory",
        f"if it is yours, allow more: {allowance.VARIABLE}={-(-2 * most * times >> 30)}GiB",
    )


def _unreadable(path: Path, error: OSError) -> UserError:
    why = error.strerror or "its file system does not answer"
    return UserError(f"{path} cannot be read: {why}", "check the name and the rights of the file")


class _Reader:
    """Bytes of a file after decompression; every error is a UserError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: BinaryIO = opening.regular(path).stream()
            first = self._file.read(4) or b""
            self._file.seek(0)
        except OSError as error:
            raise _unreadable(path, error) from None
        self._kind = first[:4] if first[:4] == _ZSTD else first[:2] if first[:2] == _GZIP else b""
        self._decompressor = self._new()
        self._offset = 0  # of the compressed file
        self._input = b""

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer at the end only."""
        result = io.BytesIO()
        while result.tell() < size:
            piece = self._piece(size - result.tell())
            if not piece:
                break
            result.write(piece)
        return result.getvalue()

    def _piece(self, size: int) -> bytes:
        if not self._decompressor:
            return self._raw(size)
        while True:
            if self._decompressor.eof:  # another member may follow
                self._input = self._decompressor.unused_data or self._input or self._raw(_READ)
                # gzip files may end in zero bytes.
                if not self._input.strip(b"\0"):
                    return b""
                self._decompressor = self._new()
                assert self._decompressor
            data = b""
            if self._decompressor.needs_input:
                data = self._input or self._raw(_READ)
                self._input = b""
                if not data:
                    raise fault(self._path, f"byte {self._offset:#x}", "the compressed data ends too early")
            try:
                piece = self._decompressor.decompress(data, size)
            except (OSError, zlib.error, ValueError, EOFError, RuntimeError) as error:
                raise fault(self._path, f"byte {self._offset:#x}", f"damaged compression ({error})") from None
            except Exception as error:
                # The class of Zstandard's own errors has a different home in each Python.
                if type(error).__name__ != "ZstdError":
                    raise
                raise fault(self._path, f"byte {self._offset:#x}", f"damaged compression ({error})") from None
            if piece:
                return piece

    def _raw(self, size: int) -> bytes:
        try:
            data = self._file.read(size) or b""
        except OSError as error:
            raise _unreadable(self._path, error) from None
        self._offset += len(data)
        return data

    def _new(self) -> _Decompressor | None:
        if self._kind == _GZIP:
            return _Gunzip()
        return _zstd(self._path) if self._kind == _ZSTD else None


class _Gunzip:
    """zlib's decompressor with the interface that those of bz2, lzma and Zstandard share."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail and not self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = 0) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _zstd(path: Path) -> _Decompressor:
    for name in ("compression.zstd", "backports.zstd"):  # the first from Python 3.14 on
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return cast(_Decompressor, module.ZstdDecompressor())
    raise UserError(
        f"{path} is compressed by zstd, which this Python does not read",
        "pip install backports.zstd, or: zstd -d",
    )
