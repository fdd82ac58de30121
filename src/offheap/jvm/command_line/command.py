"""The main class, module or jar of a java command line."""

from __future__ import annotations

from collections.abc import Sequence

# Launcher options whose value is the next word (java --help; each also takes --option=value).
_WITH_VALUE = frozenset(
    {
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--upgrade-module-path",
        "--add-modules",
        "--enable-native-access",
        "--illegal-native-access",
        "--add-reads",
        "--add-exports",
        "--add-opens",
        "--limit-modules",
        "--patch-module",
        "--source",
        "-d",
        "--describe-module",
    }
)


def main_of(arguments: Sequence[str]) -> str:
    """The main class, `module/class`, jar or source file of `java ...`; "" when unknown.

    `arguments` starts with argv[0].
    """
    words = iter(arguments[1:])
    for word in words:
        if word in ("-jar", "-m", "--module"):
            return next(words, "")
        if word.startswith("--module="):
            return word.partition("=")[2]
        if word in _WITH_VALUE:
            next(words, "")
        elif word.startswith("@"):
            return ""  # a file of arguments: the main class may be inside it
        elif not word.startswith("-"):
            return word
    return ""


def main_of_command(java_command: str) -> str:
    """The same from sun.rt.javaCommand, which joins words by spaces: a path with a space is cut there."""
    return java_command.split(" ", 1)[0]


def short(main: str) -> str:
    """A jar without its folders; classes and modules as they are."""
    return main.rpartition("/")[2] if main.endswith((".jar", ".java", ".war")) else main
