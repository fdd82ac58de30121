"""The `offheap` command: finds the subcommand, loads only its module, turns errors into status 2."""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from offheap import __version__
from offheap.errors import UserError
from offheap.report.text.encoding import never_fail
from offheap.report.text.printable import printable
from offheap.report.text.width import columns, fold, known

# name -> one line of help.  The module is offheap.cli.<name> and offers
#   add_arguments(parser: argparse.ArgumentParser) -> None   (also sets parser.epilog: examples)
#   run(args: argparse.Namespace) -> int                     exit status
COMMANDS: dict[str, str] = {
    "demo": "leak on purpose, find it, write the report",
    "run": "start a program under the probe and record it",
    "attach": "load the probe into a running JVM, record, and stop the probe",
    "detach": "stop the probe in a running JVM",
    "ps": "the JVMs of this machine and whether they are recorded",
    "clean": "remove live files whose process no longer exists",
    "where": "who owns RSS: heap, metaspace, thread stacks, malloc, files",
    "nmt": "Native Memory Tracking's report, plus the memory it does not count",
    "trim": "return malloc's free memory to the system; RSS before and after",
    "env": "print the variables that start the probe where there is no Python",
    "live": "watch what holds memory and what grows, in the terminal",
    "leaks": "suspects: sites whose old blocks survive and whose live bytes grow",
    "diff": "what changed between two recordings, or between two times of one",
    "check": "a gate for CI: pass or fail a recording by how memory grows",
    "summary": "live bytes by allocating site",
    "tree": "live bytes as a tree of callers",
    "stats": "what was recorded, over what time, and what was lost",
    "report": "write one self-contained HTML file",
    "import": "read profiles of jemalloc, gperftools, pprof, async-profiler",
    "jemalloc": "run a program under jemalloc, or dump a running one",
    "mtrace": "what glibc's mtrace can do in a process",
    "export": "write a recording for pprof, OTLP, speedscope and others",
    "push": "send a recording to Pyroscope, Parca or an OTLP collector",
    "symbolize": "name a recording's native frames on another machine, by build-id",
    "anonymize": "hash the names in a recording that is passed on",
    "completion": "print a shell completion script",
}

_GROUPS: dict[str, tuple[str, ...]] = {
    "first minute": ("demo",),
    "inspect a process": ("where", "nmt", "trim"),
    "record": ("run", "attach", "detach", "ps", "clean", "env"),
    "read a recording": ("live", "leaks", "diff", "check", "summary", "tree", "stats", "report"),
    "other tools": ("import", "jemalloc", "mtrace", "export", "push"),
    "pass on": ("symbolize", "anonymize"),
    "set up": ("completion",),
}

_DESCRIPTION = """Find where a JVM's memory goes and who leaks it: native memory first, with its
Java callers."""

_EPILOG = """examples:
  offheap demo                                  see it find a leak
  offheap run -o app.offheap -- java -jar app.jar
  offheap attach 4711 --duration 30s            no restart, no debugger
  offheap leaks app.offheap                     who leaks
  offheap COMMAND --help                        all options of a command
"""


# Columns that the examples of the commands need.
_WRITTEN_FOR = 80


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that names the mend."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _formatter_class())
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message)}; see `{self.prog} --help`\n")


def _formatter_class() -> type[argparse.HelpFormatter]:
    # rich-argparse loads rich only when it renders, so naming it here costs about 2 ms.
    from rich_argparse import RawDescriptionRichHelpFormatter

    class Formatter(RawDescriptionRichHelpFormatter):
        def __init__(self, prog: str, **options: Any) -> None:
            super().__init__(prog, max_help_position=28, **options)

    # An epilog has examples, shown as written: brackets in them are no markup.
    Formatter.text_markup = False
    Formatter.help_markup = False
    # Headings stay as written: "Recording A Command, As Offheap Run Does" is no sentence.
    Formatter.group_name_formatter = str
    return Formatter


def _top_help() -> str:
    lines = ["usage: offheap COMMAND [options]", "", _DESCRIPTION]
    width = max(map(len, COMMANDS)) + 2
    for title, names in _GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:<{width}}{COMMANDS[name]}" for name in names]
    lines += ["", "options:", f"  {'--version':<{width}}print the version", "", _EPILOG]
    text = "\n".join(lines)
    return "\n".join(fold(line, columns()) for line in text.split("\n")) if known() else text


def _module(name: str) -> Any:
    """The module of a command; `import` is a word of Python's, and has import_.py."""
    return importlib.import_module(f"offheap.cli.{name}{'_' if keyword.iskeyword(name) else ''}")


def command_parser(name: str, **options: Any) -> argparse.ArgumentParser:
    """The parser of one command; loads that command's module and no other."""
    parser = _Parser(prog=f"offheap {name}", **options)
    _module(name).add_arguments(parser)
    if not parser.description:
        parser.description = COMMANDS[name][0].upper() + COMMANDS[name][1:] + "."
    # The formatter does not wrap descriptions, because it must not wrap the examples in the epilog.
    parser.description = textwrap.fill(parser.description, columns() - 2)
    if columns() < _WRITTEN_FOR:
        parser.epilog = "\n".join(fold(line, columns() - 2) for line in (parser.epilog or "").split("\n"))
    return parser


def full_parser() -> argparse.ArgumentParser:
    """All commands in one parser, for the completion scripts: slow, it loads every command."""
    parser = _Parser(prog="offheap", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"offheap {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        _module(name).add_arguments(command)
    return parser


def _unknown(name: str) -> UserError:
    if name.startswith("-"):
        return UserError(f"unknown option {name}", "see `offheap --help`")
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
    mend = f"did you mean `offheap {near[0]}`?" if near else "see `offheap --help`"
    return UserError(f"unknown command {name!r}", mend)


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        if len(arguments) == 2 and arguments[0] == "help" and arguments[1] in COMMANDS:
            return _dispatch([arguments[1], "--help"])
        print(_top_help(), end="")
        return 0 if arguments else 2
    name = arguments[0]
    if name in ("-V", "--version"):
        print(f"offheap {__version__}")
        return 0
    if name not in COMMANDS:
        raise _unknown(name)
    parser = command_parser(name)
    status: int = _module(name).run(parser.parse_args(arguments[1:]))
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.  Exit status: 0 done, 1 a gate failed, 2 wrong use or bad input,
    130 interrupted, 141 the reader of a pipe went away, 70 a defect of offheap."""
    debug = bool(os.environ.get("OFFHEAP_DEBUG"))
    _open_closed_streams()
    never_fail(sys.stdout)
    never_fail(sys.stderr)
    try:
        try:
            status = _dispatch(sys.argv[1:] if argv is None else argv)
        except SystemExit as exit_:  # argparse: --help, or an error already printed
            status = exit_.code if isinstance(exit_.code, int) else 0
        sys.stdout.flush()  # here, so that a closed pipe raises inside this try
        return status
    except UserError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The interpreter flushes stdout again at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if debug:
            raise
        what = error.strerror or str(error)
        return _complain(f"{error.filename}: {what}" if error.filename is not None else what)
    except Exception as error:
        if debug:
            raise
        # A defect.  Still one line: offheap may run in a script on a production host.
        _complain(
            f"internal error: {type(error).__name__}: {error}; "
            "run again with OFFHEAP_DEBUG=1 for the traceback and report it"
        )
        return 70


def _open_closed_streams() -> None:
    """Opens /dev/null in place of each standard stream that the caller closed (`>&-`).

    Otherwise the next file that is opened, such as a part of a recording, gets the number of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, mode, encoding="utf-8", closefd=False))


def _complain(message: str) -> int:
    print(f"offheap: {printable(message)}", file=sys.stderr)
    return 2
