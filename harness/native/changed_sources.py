"""Sources of the probe with a mistake, to show that a test notices it."""

from __future__ import annotations

from pathlib import Path

from harness.paths import PROBE


def changed_source(name: str, folder: Path, *changes: tuple[str, str], unique: bool = True) -> Path:
    """Writes `name`, a file of the probe such as `unwind/cfi.c`, below `folder` under the same name.

    A change is a text of the source, which occurs once, and what stands there instead. Without `unique`
    the text may occur again: its first occurrence is x86-64's in a source that serves two machines.
    """
    text = (PROBE / name).read_text()
    for right, wrong in changes:
        occurrences = text.count(right)
        assert occurrences == 1 or (occurrences and not unique), f"{name} has {occurrences} times {right!r}"
        text = text.replace(right, wrong, 1)
    changed = folder / name
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text(text)
    return changed
