"""`offheap import`: other tools' memory profiles as a recording."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli.say import say
from offheap.errors import UserError

if TYPE_CHECKING:
    from offheap.recording.model import Info

# As formats/imported names them: the readers are loaded with a file only.
_NAMES = (
    *("jemalloc", "mtrace", "nmt", "heaptrack", "memray", "massif", "memcheck", "lsan"),
    *("pprof", "sapmachine-malloctrace", "jfr", "collapsed"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read other tools' memory profiles into a recording, for leaks, diff, tree, report and check. "
        "Several files are a series, in the order of their times: only a series shows what grows."
    )
    parser.epilog = """examples:
  offheap import jeprof.4711.*.heap -o app.offheap
  offheap import jeprof.4711.9.i9.heap --perf-map /tmp/perf-4711.map
  offheap import heap.pb.gz                          pprof's, of any program
  offheap import nativemem.jfr                       of asprof -e nativemem
  offheap import mtrace.log --maps maps-4711         an older glibc needs maps
  offheap import mtrace.log --maps 4711              or PID 4711, while it runs
  offheap import nmt-1.txt nmt-2.txt -o nmt.offheap  what grows between reports
"""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="one profile, or a series of them"
    )
    parser.add_argument(
        "--format",
        choices=_NAMES,
        metavar="FORMAT",
        help=f"one of {', '.join(_NAMES)} (default: by content; jemalloc reads gperftools' files, too)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="RECORDING",
        type=Path,
        help="the recording to write (default: the first file's name, with .offheap)",
    )
    parser.add_argument(
        "--maps",
        metavar="FILE|PID",
        type=_maps,
        help="a copy of /proc/PID/maps, or the PID while the process runs, for files without their own maps",
    )
    parser.add_argument(
        "--perf-map",
        metavar="FILE",
        type=Path,
        help="names of Java methods: a perf map (jcmd PID Compiler.perfmap), or a jitdump (jit-PID.dump)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.import/1)")


def _maps(word: str) -> Path:
    """A file of maps by its name, or by the PID of its process; a file that is named 4711 is ./4711."""
    return Path(f"/proc/{word}/maps") if word.isascii() and word.isdigit() else Path(word)


def run(args: argparse.Namespace) -> int:
    from offheap.recording.storage.output import check_output

    output = args.output or Path(args.files[0].name.partition(".")[0] + ".offheap")
    check_output(output)
    info = bring_in(args.files, output, args.format, args.maps, args.perf_map, quiet=args.json)
    if args.json:
        from offheap.report.json import other_tools, schemas

        print(schemas.dumps(other_tools.imported(info, len(args.files))))
    return 0


def bring_in(
    files: Sequence[Path],
    output: Path,
    name: str | None,
    maps: Path | None,
    perf_map: Path | None,
    quiet: bool = False,
) -> Info:
    """Writes the recording of a series and says what it lacks, unless `quiet`; the command then ends.

    Python's collector does not run: a large file gives a million small objects, without cycles, that live
    until the end.  Scanning them takes a tenth of the CPU time.
    """
    import gc

    from offheap.formats.imported.formats import read
    from offheap.formats.imported.recorded import write
    from offheap.recording import allowance

    gc.disable()
    with allowance.ceiling(files[0], beside=allowance.BESIDE_IMPORT):
        profile = read(files, name, maps, perf_map)
        try:
            info = write(profile, output, " ".join(map(str, files[:1])))
        except OSError as error:
            raise UserError(
                f"cannot write {output}: {error.strerror or error}", "choose another place with -o"
            ) from None
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    for line in () if quiet else (f"imported {count} of {info.imported} into {output}", *info.coverage):
        say(line)
    return info
