"""Return addresses of frames, from the frames as the probe wrote them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.probe import contract
from offheap.probe.contract import FrameKind

_MODULE_MASK = (1 << (contract.FRAME_KIND_SHIFT - contract.FRAME_MODULE_SHIFT)) - 1
_MOST = 1 << 24  # frame numbers: more than any probe has room for


def raw_calls(
    numbers: NDArray[Any], raws: NDArray[Any], modules: int
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """(module or -1, ELF virtual address) by frame number; `modules`: how many there are."""
    known = numbers < _MOST
    numbers, raws = numbers[known].astype(np.int64), raws[known].astype(np.uint64)
    module = (raws >> np.uint64(contract.FRAME_MODULE_SHIFT) & np.uint64(_MODULE_MASK)).astype(np.int64)
    native = (raws >> np.uint64(contract.FRAME_KIND_SHIFT) == FrameKind.NATIVE) & (module < modules)
    size = int(numbers[native].max(initial=-1)) + 1
    of_number, address = np.full(size, -1, np.int32), np.zeros(size, np.uint64)
    of_number[numbers[native]] = module[native]
    address[numbers[native]] = raws[native] & np.uint64(contract.FRAME_ADDRESS_MASK)
    return of_number, address
