"""The server of silent_mount.py: `python -m harness.hostile.silent_server`, with the arguments of `main`."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import time

# linux/fuse.h
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, RELEASE, FLUSH = 1, 2, 3, 4, 14, 15, 18, 25
INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 26, 27, 28, 29, 36, 42
_NO_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)
_NO_FLUSH = 1 << 5  # FOPEN_NOFLUSH
_MS_NOSUID, _MS_NODEV = 2, 4

AT_ONCE, NEVER = 0, -1
_ROOT = 1
_FILE_BYTES = 65536
_VALID_SECONDS = 3600  # of names and attributes, which the kernel then does not ask for again
_AGE_SECONDS = 2 * 24 * 3600


class Refused(Exception):
    """The number of the error that answers a request."""


class Server:
    def __init__(self, names: list[str], owner: int, flushed: bool) -> None:
        self._names, self._owner, self._flushed = names, owner, flushed

    def answer(self, code: int, node: int, body: bytes) -> bytes:
        if code == INIT:
            return struct.pack("<4I2H2I2HI28x", 7, 31, 0, 0, 0, 0, 65536, 1, 0, 0, 0)
        if code in (GETATTR, SETATTR):
            return struct.pack("<QII", _VALID_SECONDS, 0, 0) + self._attributes(node)
        if code == LOOKUP:
            found = self._number(body.split(b"\0")[0].decode())
            entry = struct.pack("<QQQQII", found, 0, _VALID_SECONDS, _VALID_SECONDS, 0, 0)
            return entry + self._attributes(found)
        if code in (OPEN, OPENDIR):
            return struct.pack("<QII", 1, 0 if self._flushed else _NO_FLUSH, 0)
        if code == READ:
            at, size = struct.unpack_from("<QI", body, 8)
            return bytes(max(0, min(size, _FILE_BYTES - at)))
        if code == READDIR:
            return self._listed(struct.unpack_from("<Q", body, 8)[0])
        if code in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        raise Refused(errno.ENOSYS)

    def _number(self, name: str) -> int:
        if name not in self._names and name.isdecimal():
            name = "PID"
        if name not in self._names:
            raise Refused(errno.ENOENT)
        return self._names.index(name) + _ROOT + 1

    def _attributes(self, node: int) -> bytes:
        mode = 0o40777 if node == _ROOT else 0o100600
        times = [int(time.time()) - _AGE_SECONDS] * 3 + [0] * 3
        owner = self._owner
        return struct.pack(
            "<6Q10I", node, _FILE_BYTES, _FILE_BYTES // 512, *times, mode, 1, owner, owner, 0, 4096, 0
        )

    def _listed(self, first: int) -> bytes:
        data = b""
        for at, name in list(enumerate(self._names, 1))[first:]:
            raw = name.encode()
            data += struct.pack("<QQII", at + _ROOT, at, len(raw), 8) + raw + bytes(-len(raw) % 8)
        return data


def mount(place: str) -> int:
    """The device of a new mount."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40777,user_id=0,group_id=0,allow_other".encode()
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"silent", os.fsencode(place), b"fuse", _MS_NOSUID | _MS_NODEV, options) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return device


def serve(device: int, server: Server, after: int) -> None:
    """Until it answers a request `after`, or standard input, which may change `after`, says AT_ONCE."""
    while after != AT_ONCE:
        # No thread: the server must not have read a request when it falls silent.
        ready, _, _ = select.select([device, sys.stdin], [], [])
        if sys.stdin in ready:
            after = int(sys.stdin.readline() or AT_ONCE)
            print("told", flush=True)
            continue
        request = os.read(device, 1 << 20)
        code, unique, node = struct.unpack_from("<IQQ", request, 4)
        if code in _NO_ANSWER:
            continue
        try:
            error, data = 0, server.answer(code, node, request[40:])
        except Refused as refused:
            error, data = -refused.args[0], b""
        os.write(device, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
        if code == after:
            return


def main() -> None:
    place, names, owner, after, flushed = sys.argv[1:]
    device = mount(place)
    print("ready", flush=True)
    serve(device, Server(names.split(","), int(owner), flushed == "True"), int(after))
    sys.stdin.read()


if __name__ == "__main__":
    main()
