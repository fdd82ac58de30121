"""libFuzzer, as Atheris brings it to Python, on the reader of live files; fuzz.py runs it.

    python -m harness.survival.fuzz_reader FOLDER [libFuzzer's options]

An input is a list of changes to a good file, four bytes a change: the place (among those that matter), the
value, and how often; two bytes before them cut the file.  FOLDER keeps inputs that reach new code.  An error
other than UserError is a find, kept as crash-* in the current folder.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["offheap.recording"]):
    from harness.recordings import live_file_example

CUT, CHANGE = struct.Struct("<H"), struct.Struct("<HBB")


def changed(script: bytes) -> bytes:
    raw = bytearray(live_file_example.GOOD)
    body = script[CUT.size :]
    for place, value, times in CHANGE.iter_unpack(body[: len(body) // CHANGE.size * CHANGE.size]):
        at = live_file_example.PLACES[place % len(live_file_example.PLACES)]
        raw[at : at + times % 8 + 1] = bytes([value]) * (times % 8 + 1)
    (cut,) = CUT.unpack(script[: CUT.size].ljust(CUT.size, b"\0"))
    return bytes(raw[:cut] if cut else raw)


def main() -> None:
    folder = Path(sys.argv[1])
    path = folder.parent / "input.live"

    def once(script: bytes) -> None:
        path.write_bytes(changed(script))
        live_file_example.read_all(path)

    atheris.Setup([sys.argv[0], *sys.argv[2:], str(folder)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
