"""A folder of images and debug files, in any order and under any names, by their build-ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from offheap.errors import UserError
from offheap.proc.images.elf import ElfError, ElfImage

_MOST_FILES = 200_000  # that are looked at: a system's /usr/lib has 50,000
_MOST_DEPTH = 32  # folders in each other
_MAGIC = b"\x7fELF"


class ByBuildId:
    """Reads the folder once, when the first build-id is asked for.  Links within it are not followed."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder", "give one with debug files")
        self._folder = folder
        self._files: dict[str, list[Path]] | None = None

    def find(self, build_id: str) -> Iterator[Path]:
        if self._files is None:
            self._files = self._read()
        yield from self._files.get(build_id, [])

    def _read(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for path in self._paths():
            try:
                with open(path, "rb") as file:
                    if file.read(len(_MAGIC)) != _MAGIC:
                        continue
                with ElfImage.open(path) as image:
                    build_id = image.build_id
            except (OSError, ElfError):
                continue
            if build_id:
                found.setdefault(build_id, []).append(path)
        return found

    def _paths(self) -> Iterator[Path]:
        """Regular files, in the same order each time."""
        count = 0
        depth = len(self._folder.parts)
        for place, folders, names in os.walk(self._folder):
            folders.sort()
            if len(Path(place).parts) - depth >= _MOST_DEPTH:
                folders.clear()
            for name in sorted(names):
                count += 1
                if count > _MOST_FILES:
                    return
                path = Path(place, name)
                if path.is_file() and not path.is_symlink():
                    yield path
