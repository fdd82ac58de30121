"""Threads of events, by name: the numbers of a profile's threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.file.constants import Constants

_THREADS = "java.lang.Thread"
TABLES: dict[str, Sequence[str]] = {_THREADS: ("osName", "javaName")}
_MOST = 65_535  # of LIVE; beyond they are "other threads"
OTHER_THREADS = "other threads"


class ThreadNames:
    """Numbers are places in `names`, the first of which is for threads without a name."""

    def __init__(self) -> None:
        self._numbers = {OTHER_THREADS: 0}

    @property
    def names(self) -> list[str]:
        return list(self._numbers)

    def numbers(self, keys: NDArray[np.uint64], constants: Constants) -> NDArray[np.uint32]:
        """By key, as a chunk's constants name threads; a name that is new gets the next number."""
        numbers = np.zeros(len(keys), np.uint32)
        for at, key in enumerate(keys.tolist()):
            row = constants.tables[_THREADS].get(key)
            if row is None:
                continue
            name = constants.text(row[1]) or constants.text(row[0])
            if name and (name in self._numbers or len(self._numbers) < _MOST):
                numbers[at] = self._numbers.setdefault(name, len(self._numbers))
        return numbers

    def of(self, keys: NDArray[Any], constants: Constants) -> NDArray[np.int64]:
        """The same of many events."""
        distinct, back = np.unique(keys, return_inverse=True)
        return self.numbers(distinct.astype(np.uint64), constants)[back.reshape(-1)].astype(np.int64)
