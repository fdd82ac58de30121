"""`offheap demo`: leak on purpose, find it, write the report."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli.say import say
from offheap.demo.shop import DEMO, compile_demo, find_jdk
from offheap.errors import UserError
from offheap.launch.signals import held
from offheap.quantities import parse_positive_duration
from offheap.report.text.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from offheap.launch.launch import Launched
    from offheap.recording.capture.recorder import Progress

MAIN = "com.example.shop.Shop"
SHORTEST_SECONDS = 5
HEAP_MIB = 64  # of the shop
LEAKED_MIB_PER_SECOND = 1.25  # at most, of Java objects; the shop must not run out of memory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Start a small Java program that leaks native memory, record it the way `offheap run` does, "
        "name who leaks, and write the HTML report.  It takes less than a minute and needs a JDK."
    )
    parser.epilog = """examples:
  offheap demo
  offheap demo --java-heap                 leak Java objects as well
  offheap demo --duration 1m -o /tmp/shop.offheap"""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="the recording (default demo.offheap, demo-2.offheap ...)",
    )
    parser.add_argument(
        "--duration",
        type=parse_positive_duration,
        default=30.0,
        metavar="TIME",
        help="how long to record (default 30s)",
    )
    parser.add_argument(
        "--java-heap",
        action="store_true",
        help="the program leaks Java objects as well; find both leaks",
    )


def run(args: argparse.Namespace) -> int:
    with held():
        from offheap.recording.storage.output import check_output
        from offheap.recording.storage.output_name import free_name

    if args.duration < SHORTEST_SECONDS:
        raise UserError(f"{args.duration:g} s is too short to tell a leak", "give --duration 30s")
    output: Path = args.output or free_name("demo")
    check_output(output)
    home = find_jdk()
    what = "native memory and Java objects" if args.java_heap else "native memory"
    say(f"a shop in {(DEMO / 'com/example/shop').as_posix()} leaks {what}; let us see where")
    with tempfile.TemporaryDirectory(prefix="offheap-demo-") as classes:
        compile_demo(home, Path(classes))
        java = str(home / "bin" / "java")
        seconds = round(args.duration)
        most = HEAP_MIB + (round(seconds * LEAKED_MIB_PER_SECOND) if args.java_heap else 0)
        command = [java, f"-Xmx{most}m", "-Xmn4m", "-cp", classes, MAIN, str(seconds)]
        command += ["visitors"] if args.java_heap else []
        launched = record(command, output, seconds, java_heap=args.java_heap)
    if launched.problems:
        return 2
    if not launched.outcomes:
        raise UserError(
            f"nothing was recorded: {java} never loaded the probe",
            "it may be built against musl; try another JDK",
        )
    if launched.status:
        say(f"the shop ended with status {launched.status}; the recording is kept: offheap leaks {output}")
        return launched.status
    report = output.with_suffix(".html")
    print(flush=True)
    _command("leaks", str(output))
    print(flush=True)
    _command("report", str(output), "-o", str(report))
    print(_next_steps(printable(str(output)), java_heap=args.java_heap), flush=True)
    return 0


def record(command: list[str], output: Path, seconds: float, *, java_heap: bool = False) -> Launched:
    """Runs the command to its end under the probe, with a progress bar."""
    from offheap.inspect.over_time import owners_reader
    from offheap.jvm.counters.collection_log import CollectionLog
    from offheap.launch.launch import Settings, launch
    from offheap.probe import options
    from offheap.probe.library import probe_library

    sampling = f"{options.DEFAULT},java" if java_heap else options.DEFAULT
    library = options.preload(probe_library(), os.environ.get("LD_PRELOAD", ""))

    def variables(folder: Path) -> dict[str, str]:
        words = options.environment_text(sampling, directory=folder, follow=False)
        return {"LD_PRELOAD": library, "OFFHEAP": f"{words},search={os.getpid()}"}

    with _progress(seconds) as advance:
        settings = Settings(
            variables=variables,
            output=output,
            every=0.5,
            on_progress=advance,
            owners=owners_reader(),
            collections=CollectionLog,
        )
        return launch(command, settings)


@contextmanager
def _progress(seconds: float) -> Iterator[Callable[[Progress], None]]:
    if not sys.stderr.isatty():
        from offheap.cli.progress import ProgressLine

        with ProgressLine("recording the shop") as line:
            yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from offheap.quantities import format_size

    columns = (
        TextColumn("recording the shop"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=seconds)

        def advance(progress: Progress) -> None:
            seen = f"RSS {format_size(progress.rss_bytes)}, {progress.stacks} call stacks"
            bar.update(task, completed=min(progress.seconds, seconds), description=seen)

        yield advance


def _command(name: str, *arguments: str) -> None:
    """Runs another offheap command as if the user typed it."""
    import importlib

    from offheap.cli.main import command_parser

    parsed = command_parser(name).parse_args(arguments)
    importlib.import_module(f"offheap.cli.{name}").run(parsed)


def _next_steps(output: str, *, java_heap: bool) -> str:
    follow = " --java-heap" if java_heap else ""
    commands = {
        f"offheap tree {output}": "who called whom",
        "offheap ps": "the JVMs of this machine",
        f"offheap attach PID{follow} --duration 1m": "record a running JVM, without a restart",
        "offheap run -- java -jar app.jar": "record a program from its start",
    }
    width = min(max(map(len, commands)), 44)
    lines = [f"  {command:<{width}}   {what}" for command, what in commands.items()]
    bugs = ["The bug is in PriceImport.askNextSupplier:", "one return path does not end the Inflater."]
    if java_heap:
        bugs += ["The other one is in Visitors.leave:", "a key of another type removes no basket."]
    return "\n".join(["", *bugs, "next:", *lines])
