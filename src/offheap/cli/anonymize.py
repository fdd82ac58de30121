"""`offheap anonymize`: a recording without names of the application."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from offheap.cli.load import package


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Hash the names in a recording, to pass it on. Names of the JDK, of HotSpot and of the run-time "
        "libraries of C and C++ stay readable, and so do sizes, times, counts, line numbers, the PID, and "
        "flags of the JVM that are numbers or switches. All other names are hashed; equal names have equal "
        "hashes. Arguments, properties and folders are dropped."
    )
    parser.epilog = """examples:
  offheap anonymize app.offheap -o shared.offheap
  offheap anonymize app.offheap -o shared.offheap --keep io.netty

One key makes recordings comparable:

  (umask 077; head -c 32 /dev/urandom > key)
  offheap anonymize app.offheap -o shared.offheap --key key
"""
    parser.add_argument(
        "recording", metavar="RECORDING", help="a recording, complete or of a killed recorder"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the new recording")
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="a secret of 16 bytes or more: equal names have equal hashes in every recording with this key "
        "(default: a new key, which is not stored)",
    )
    parser.add_argument(
        "--keep",
        type=package,
        action="append",
        default=[],
        metavar="PACKAGE",
        help="leave the names of a Java package readable, such as io.netty; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.anonymize/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.recording.allowance import ceiling
    from offheap.recording.storage.output import check_output
    from offheap.report.text.printable import printable
    from offheap.rewriting import content as contents
    from offheap.rewriting.anonymize import anonymize
    from offheap.rewriting.hashing import KEY_BYTES, Hashes, key_of

    source = Path(args.recording)
    key = key_of(args.key) if args.key else secrets.token_bytes(KEY_BYTES)
    check_output(args.output)
    with ceiling(source):
        content = contents.read(source)
        outcome = anonymize(content, Hashes(key), args.keep)
        contents.write(content, args.output)
    if args.json:
        from offheap.report.json import other_tools, schemas

        kept = args.key is not None
        print(schemas.dumps(other_tools.anonymized(args.output, outcome.hashed, outcome.readable, kept)))
        return 0
    print(f"hashed {outcome.hashed:,} names of functions and classes, left {outcome.readable:,} readable")
    if not args.key:
        print("the key is forgotten: names cannot be compared with those of other recordings (--key FILE)")
    print(f"offheap: wrote {printable(str(args.output))}", file=sys.stderr)
    return 0
