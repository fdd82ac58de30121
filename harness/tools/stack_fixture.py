"""Writes the stack of a recording's first suspect to tests/data/stacks, for the tests of who is blamed.

.venv/bin/python -m harness.tools.published_program run netty-audit leak --jdk 21 --print
.venv/bin/offheap run -o netty.offheap --duration 30s -- java ...
.venv/bin/python -m harness.tools.stack_fixture netty netty.offheap "Netty 4.1.115, ..."
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.paths import DATA
from offheap.analysis.leaks.leaks import ranking
from offheap.recording import load

FOLDER = DATA / "stacks"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the first suspect's stack to tests/data/stacks.")
    parser.add_argument("name")
    parser.add_argument("recording", type=Path)
    parser.add_argument("program", help="in words: which libraries, in which versions, do what")
    args = parser.parse_args()
    recording = load(args.recording)
    value = {
        "program": args.program,
        "java_version": recording.info.java_version,
        "main_class": recording.info.main_class,
        # The fixture must not name folders of the machine.
        "stack": [list(f._replace(file=Path(f.file).name)) for f in ranking(recording)[0].site.stack],
    }
    lines = json.dumps(value, indent=0, ensure_ascii=False).replace(",\n", ", ").replace("[\n", "[")
    text = lines.replace("\n]", "]").replace("], [", "],\n[")
    (FOLDER / f"{args.name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
