"""Lists and starts the programs of examples/published.

    .venv/bin/python -m harness.tools.published_program list
    .venv/bin/python -m harness.tools.published_program run zstd-orders leak --jdk 17
    .venv/bin/python -m harness.tools.published_program run zstd-orders leak --print

--print prints the command line only.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.evaluation.published_programs import BUILD, MANIFEST, TWINS, manifest, prepare, programs
from harness.jvms import java_homes
from harness.peers import maven


def pin() -> None:
    """Writes the SHA-256 of each artifact that a program names and the manifest does not pin yet."""
    read = manifest()
    named = dict.fromkeys(artifact for program in programs().values() for artifact in program.artifacts)
    pins: dict[str, str] = {name: read["artifacts"][name] for name in named if name in read["artifacts"]}
    jars = maven.fetch_exactly([name for name in named if name not in pins], BUILD / "jars")
    pins.update({name: maven.digest(jar) for name, jar in jars.items()})
    read["artifacts"] = dict(sorted(pins.items()))
    MANIFEST.write_text(json.dumps(read, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="The programs of examples/published.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="names, and what they do")
    commands.add_parser("pin", help="add the checksums of new artifacts to the manifest")
    runs = commands.add_parser("run", help="start one; it reads `stop` and `exit` on standard input")
    runs.add_argument("name", choices=sorted(programs()))
    runs.add_argument("twin", choices=TWINS)
    runs.add_argument("--jdk", type=int, default=17)
    runs.add_argument("--print", action="store_true", help="the command line only")
    runs.add_argument(
        "--option", action="append", default=[], help="one more of the JVM, such as --option=-Xlog:gc"
    )
    args = parser.parse_args()
    if args.command == "list":
        for program in programs().values():
            print(f"{program.name:22} {program.does}")
        return 0
    if args.command == "pin":
        pin()
        return 0
    ready = prepare(programs()[args.name])
    if args.print:
        scratch = Path(tempfile.gettempdir()) / f"published-{args.name}"
        scratch.mkdir(exist_ok=True)
        print(shlex.join(ready.command(java_homes.java(args.jdk), args.twin, scratch, args.option)))
        return 0
    with tempfile.TemporaryDirectory(prefix="published-") as folder:
        return subprocess.run(
            ready.command(java_homes.java(args.jdk), args.twin, Path(folder), args.option)
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
