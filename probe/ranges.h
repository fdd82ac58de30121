/* Live mappings: a set of disjoint address ranges, because munmap and MAP_FIXED take any part of one. */
#ifndef OFFHEAP_RANGES_H
#define OFFHEAP_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "recording.h"

/* For the mapped RANGES of a new live file.  False without memory. */
bool ranges_start(struct offheap_range *rows, uint64_t capacity);

/* Adds one; what it overlaps is taken out first (its munmap was not seen). False: full or busy. */
bool ranges_insert(const struct offheap_range *range);

/* Takes [start, end) out of every range: whole ranges, either end of one, or its middle.
 * `first`, if not NULL, becomes a copy of the first range hit, as it was (start == 0: none was).
 * False: busy (counted by the caller) or no row was free for the far end of a range cut in two. */
bool ranges_remove(uint64_t start, uint64_t end, struct offheap_range *first);

#endif
