"""`offheap clean`: removes stale live files."""

from __future__ import annotations

import argparse

from offheap.quantities import parse_duration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Remove the live files whose process no longer exists: killed JVMs leave them in /dev/shm, which "
        "is memory.  It keeps a file that a process still writes or an offheap still reads, and other "
        "users' files; each is listed with the reason.  Until it is removed, `offheap leaks FILE` reads "
        "such a file."
    )
    parser.epilog = """examples:
  offheap clean --dry-run               what would be removed, what kept
  offheap clean
  offheap clean --older-than 7d
  sudo offheap clean --all-users"""
    parser.add_argument("-n", "--dry-run", action="store_true", help="list only, remove nothing")
    parser.add_argument(
        "--older-than",
        type=parse_duration,
        default=0.0,
        metavar="TIME",
        help="keep the files that are younger",
    )
    parser.add_argument("--all-users", action="store_true", help="as root: also the files of other users")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.clean/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.probe.live_files.stale_files import Survey, Wish, survey
    from offheap.report.json.clean import clean_json
    from offheap.report.json.schemas import dumps
    from offheap.report.terminal import clean
    from offheap.report.terminal.console import console

    wish = Wish(remove=not args.dry_run, everybody=args.all_users, seconds=args.older_than)
    found = Survey(survey(wish))
    if args.json:
        print(dumps(clean_json(found, dry_run=args.dry_run)))
    else:
        clean.print_files(console(), found, dry_run=args.dry_run)
    return 0
