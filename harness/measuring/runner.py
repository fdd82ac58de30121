"""What every benchmark does alike: its command line, its scratch folder, and where its table goes."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.measuring import document
from harness.paths import DOCS
from harness.peers.variants import BASE, Variant
from offheap.probe import checkout


@dataclass(frozen=True)
class Benchmark:
    """A program of benchmarks/ and the section of a document that it fills.

    name      its module below benchmarks, such as cost.malloc_pair
    document  a file of docs/, such as measurements/hot-path.md; "" of a program without a table
    title     of the document, where the benchmark has to begin it
    part      an option that has a section of its own, such as --full
    """

    name: str
    document: str = ""
    title: str = "Benchmarks"
    part: str = ""

    @property
    def marker(self) -> str:
        """What begins the section, in a comment."""
        path = f"benchmarks/{self.name.replace('.', '/')}.py"
        return f"{path} {self.part}" if self.part else path

    def parser(
        self, description: str, *, quick: str = "", write: str = "", more: str = ""
    ) -> argparse.ArgumentParser:
        """The command line: --write if there is a document; --quick if it has a help; --library and --only if
        `more` has them.
        """
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.name}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if quick:
            parser.add_argument("--quick", action="store_true", help=quick)
        if self.document:
            help_text = write or f"put the table into docs/{self.document}"
            parser.add_argument("--write", action="store_true", help=help_text)
        if "library" in more:
            parser.add_argument("--library", type=Path, help="this liboffheap.so, not the checkout's")
        if "only" in more:
            parser.add_argument("--only", metavar="NAME", help="variants whose name contains this")
        return parser

    def ran(self, *words: object) -> str:
        """The command that measured it, for the head of the table."""
        return f"`{' '.join(map(str, ('python -m', f'benchmarks.{self.name}', *words)))}`"

    def publish(self, lines: Sequence[str], *, write: bool) -> None:
        """Prints the lines, and with `write` puts them into the document."""
        print("\n".join(lines))
        if write:
            document.replace_section(DOCS / self.document, self.marker, lines, self.title)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory, so that no disk is measured."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-bench-") as folder:
        yield Path(folder)


def probe(library: Path | None = None) -> Path:
    """The library to measure: this one, else the checkout's."""
    built: Path | None = library or checkout.build_script().build_if_changed()
    assert built, "probe/ has no C file"
    return built


def chosen(compared: Sequence[Variant], only: str | None, *, base: bool = True) -> list[Variant]:
    """The variants whose names contain `only`, and nothing itself where `base`."""
    if only is None:
        return list(compared)
    return [one for one in compared if (base and one is BASE) or only in one.name]
