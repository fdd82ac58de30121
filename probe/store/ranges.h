/* Live mappings: a set of disjoint address ranges, because munmap and MAP_FIXED remove any part of a mapping. */
#ifndef OFFHEAP_RANGES_H
#define OFFHEAP_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "recording.h"

/* Call for the mapped RANGES of a new live file.  False without memory. */
bool ranges_start(struct offheap_range *rows, uint64_t capacity);

/* Adds a range; first removes what it overlaps, whose munmap no hook saw.  False: the set is full, or another thread
 * held its lock too long. */
bool ranges_insert(const struct offheap_range *range);

/* The parts removed from ranges, each with the length at birth of the whole range. */
enum { RANGES_TAKEN = 16 };
struct ranges_taken {
    uint32_t count, more; /* more: parts that did not fit */
    struct offheap_range part[RANGES_TAKEN];
};

/* Takes [start, end) out of every range: whole ranges, either end of one, or its middle.  Adds the parts to `taken`.
 * False: another thread held the lock too long, or no row was free for the far end of a range cut in two; the caller
 * counts the loss. */
bool ranges_remove(uint64_t start, uint64_t end, struct ranges_taken *taken);

#endif
