"""The flags and the main class, module or jar of a java command line."""

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


def flags_and_main(arguments: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The JVM's flags, and the main class, `module/class`, jar or source file, of `java ...`.

    `arguments` starts with argv[0]. The main class is "" when unknown, as after a file of arguments
    (`@FILE`), which may contain it.
    """
    flags: list[str] = []
    main, after_file = "", False
    words = iter(arguments[1:])
    for word in words:
        if word in ("-jar", "-m", "--module"):
            main = next(words, "")
            break
        if word.startswith("--module="):
            main = word.partition("=")[2]
            break
        if not word.startswith(("-", "@")):
            main = word
            break
        after_file |= word.startswith("@")
        flags.append(word)
        if word in _WITH_VALUE:
            flags.append(next(words, ""))
    return tuple(flags), "" if after_file else main


def main_of(arguments: Sequence[str]) -> str:
    """The second part of `flags_and_main`."""
    return flags_and_main(arguments)[1]


def main_of_command(java_command: str) -> str:
    """The same from sun.rt.javaCommand, which joins words by spaces: a path with a space is cut there."""
    return java_command.split(" ", 1)[0]


def short(main: str) -> str:
    """A jar without its folders; classes and modules as they are."""
    return main.rpartition("/")[2] if main.endswith((".jar", ".java", ".war")) else main
