"""The options of a JVM's start, as far as they are visible from outside without asking the JVM."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from offheap.proc import opening, root, status

_MOST_BYTES = 1 << 20  # of a file of options
_MOST_FILES = 16
_FLAG = re.compile(r"(?:-XX:)?([+-])(\w+)")


def switches(pid: int, flag: str) -> list[bool]:
    """Each `-XX:+flag` and `-XX:-flag` in the order of precedence: the last one wins.

    Sources: the command line, the three variables, and the files that they name (@argfiles, -XX:Flags=,
    -XX:VMOptionsFile=).
    """
    environment = status.environment(pid)
    files = iter(range(_MOST_FILES))
    words: list[str] = []
    for text in (
        shlex_words(environment.get("JAVA_TOOL_OPTIONS", "")),
        shlex_words(environment.get("JDK_JAVA_OPTIONS", "")),
        status.command_line(pid)[1:],
        shlex_words(environment.get("_JAVA_OPTIONS", "")),
    ):
        words += _expanded(pid, text, files)
    # HotSpot reads the file of flags before any option.
    named = [word.partition("=")[2] for word in words if word.startswith("-XX:Flags=")]
    of_file = [f"-XX:{word}" for name in named[-1:] for word in _words_of(pid, name)]
    found = []
    for word in of_file + words:
        match = _FLAG.fullmatch(word) if word.startswith("-XX:") else None
        if match and match[2] == flag:
            found.append(match[1] == "+")
    return found


def shlex_words(text: str) -> list[str]:
    """Words as the launcher takes them: quotes may hold spaces, # begins a comment."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that is not closed
        return text.split()


def _expanded(pid: int, words: Iterable[str], files: Iterator[int]) -> Iterator[str]:
    for word in words:
        named = word[1:] if word.startswith("@") else word.removeprefix("-XX:VMOptionsFile=")
        if named == word:
            yield word
        elif next(files, None) is not None:
            yield from _words_of(pid, named)


def _words_of(pid: int, name: str) -> list[str]:
    try:
        text = opening.head(root.from_cwd(pid, name), _MOST_BYTES)
    except (OSError, ValueError):
        return []
    return shlex_words(text.decode(errors="replace"))
