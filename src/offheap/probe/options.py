"""The probe's options as text (probe/options.h), and the variables that pass them to a program."""

from __future__ import annotations

from pathlib import Path

from offheap.errors import UserError

DEFAULT = "budget=1%"  # equal to the probe's own (probe/options.c)
_EXACT_MEMORY = 320 << 20  # bytes, equal to the probe's own


def stated_memory(words: str) -> int:
    """The bytes that the options let the probe take; 0: its default."""
    stated = [int(word.removeprefix("memory=")) for word in words.split(",") if word.startswith("memory=")]
    return stated[-1] if stated else _EXACT_MEMORY if "exact" in words.split(",") else 0


def preload(library: Path, before: str) -> str:
    """LD_PRELOAD with the probe in front of `before`: the probe chains to an allocator behind it."""
    if any(c in " :" for c in str(library)):
        # ld.so(8) splits at both and has no quoting.
        raise UserError(
            f"the probe's path contains a space or a colon, which LD_PRELOAD does not accept: {library}",
            "install offheap in another directory, or copy liboffheap.so to one",
        )
    others = [word for word in before.replace(":", " ").split() if word != str(library)]
    return ":".join([str(library), *others])


def environment_text(sampling: str, *, directory: Path | None, follow: bool, keep: bool = False) -> str:
    """The text of the OFFHEAP variable; `sampling`: the probe's options for the sampling."""
    words = [sampling]
    if directory is not None:
        if "," in str(directory):
            raise UserError(
                f"the probe does not accept a directory with a comma: {directory}", "choose another --dir"
            )
        words.append(f"dir={directory.absolute()}")
    if follow:
        words.append("follow")
    if keep:
        words.append("keep")
    return ",".join(words)
