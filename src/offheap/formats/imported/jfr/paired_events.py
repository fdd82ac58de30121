"""Which allocation a free ends: events of one address, in the order of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_HIGH_BITS = 32  # of an address, by which regions of memory are told
_MOST_HIGH = 1 << 16  # regions: addresses of user space have 47 bits


def before(addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each event the place of the one before it at the same address, -1 without one."""
    order = _order(addresses)
    grouped = addresses[order]
    same = grouped[1:] == grouped[:-1]
    found = np.full(len(addresses), -1, np.int64)
    found[order[1:][same]] = order[:-1][same]
    return found


def _order(addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places by address, then as they are.

    A plain sort of numbers, address and place in one, takes a tenth of the time of a sort of places.
    """
    count = len(addresses)
    place_bits = max(count - 1, 1).bit_length()
    high = addresses >> np.uint64(_HIGH_BITS)
    if not count or int(high.max()) >= _MOST_HIGH:
        return np.argsort(addresses, kind="stable")
    present = np.zeros(_MOST_HIGH, bool)
    present[high] = True
    rank = np.cumsum(present) - 1
    if int(rank[-1]).bit_length() + _HIGH_BITS + place_bits > 63:
        return np.argsort(addresses, kind="stable")
    low = addresses & np.uint64((1 << _HIGH_BITS) - 1)
    packed = ((rank[high].astype(np.uint64) << np.uint64(_HIGH_BITS)) | low) << np.uint64(place_bits)
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    return (packed & np.uint64((1 << place_bits) - 1)).astype(np.int64)
