"""Where in the libraries the functions of a stack called the next inner one: return addresses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Calls:
    """By frame number; functions that the compiler inlined have the number of the function they are in.

    numbers    parallel to Recording.stack_frames
    modules    index into Recording.modules; -1: the frame is in none, or its address is not known
    addresses  ELF virtual addresses, as objdump prints them
    """

    numbers: NDArray[np.int32]
    modules: NDArray[np.int32]
    addresses: NDArray[np.uint64]

    def at(self, place: int) -> tuple[int, int] | None:
        """(module, address) of a place in Recording.stack_frames."""
        if not 0 <= place < len(self.numbers):
            return None
        number = int(self.numbers[place])
        if number >= len(self.modules) or self.modules[number] < 0:
            return None
        return int(self.modules[number]), int(self.addresses[number])
