"""libFuzzer, as Atheris brings it to Python, on the reader of live files; fuzz.py runs it.

    python benchmarks/fuzz_reader.py FOLDER [libFuzzer's options]

What it makes up is what to change in a good file, four bytes a change: where (among the places that matter),
what to put there, and how often; two bytes before them cut the file.  FOLDER keeps what reached something
new.  Anything but a UserError is a find, kept as crash-* in the current folder.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

with atheris.instrument_imports(include=["offheap.recording"]):
    import test_live_reader

CUT, CHANGE = struct.Struct("<H"), struct.Struct("<HBB")


def changed(script: bytes) -> bytes:
    raw = bytearray(test_live_reader.GOOD)
    body = script[CUT.size :]
    for place, value, times in CHANGE.iter_unpack(body[: len(body) // CHANGE.size * CHANGE.size]):
        at = test_live_reader.PLACES[place % len(test_live_reader.PLACES)]
        raw[at : at + times % 8 + 1] = bytes([value]) * (times % 8 + 1)
    (cut,) = CUT.unpack(script[: CUT.size].ljust(CUT.size, b"\0"))
    return bytes(raw[:cut] if cut else raw)


def main() -> None:
    folder = Path(sys.argv[1])
    path = folder.parent / "input.live"

    def once(script: bytes) -> None:
        path.write_bytes(changed(script))
        test_live_reader.read_all(path)

    atheris.Setup([sys.argv[0], *sys.argv[2:], str(folder)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
