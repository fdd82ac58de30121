/*
 * The live table: address -> value, in the live file, lock-free, read from outside.
 *
 *   KEYS    bucket 0: 8 keys (one cache line) | bucket 1: 8 keys | ...
 *   VALUES  in step with KEYS
 *   (private) one byte a bucket: how many keys went past it to a later bucket
 *
 * A look-up ends at the first bucket that no key went past, so a miss costs one cache
 * line and there are no tombstones (as in F14).  The outside reader copies twice and
 * keeps what is equal in both.
 *
 * It grows by segments, each such a table of its own.  New blocks go into one of them; blocks never move, so a
 * segment that comes stops nobody, and a block that lives through a reading of the table is met in it once.
 * A look-up begins at the youngest and costs one cache line for each segment that lacks the block.
 *
 * In front of it stands a counting filter, one byte a hash of the address: the free of
 * a block that was not sampled ends there, in a line of 128 KiB that stays in L2.
 */
#ifndef OFFHEAP_TABLE_H
#define OFFHEAP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "recording.h"

#define TABLE_FILTER_BITS 17
extern _Atomic uint8_t table_filter[1 << TABLE_FILTER_BITS] __attribute__((visibility("hidden")));

/* Neighbouring blocks have neighbouring bytes here: a thread that frees one after the other stays in a cache line.
 * The upper bits spread blocks that are aligned alike, such as blocks with a mapping of their own. */
static inline uint32_t table_filter_index(const void *block) {
    uint64_t address = (uint64_t)(uintptr_t)block;
    return (uint32_t)((address ^ address >> TABLE_FILTER_BITS) >> 4) & ((1 << TABLE_FILTER_BITS) - 1);
}

/* The fast path of free: true when `block` is surely not in the table. */
static inline bool table_lacks(const void *block) {
    return __builtin_expect(
        __atomic_load_n((const uint8_t *)&table_filter[table_filter_index(block)], __ATOMIC_RELAXED) == 0, 1);
}

/* Call for the mapped KEYS and VALUES of a new live file.  `exact`: the filter lets everything through, since it
 * would be full anyway.  `most`: the capacity that all segments together may come to.  False: no memory. */
bool table_start(uint64_t *keys, struct offheap_value *values, uint64_t capacity, uint64_t most, bool exact);
/* Makes the filter say "lacks" to everything. */
void table_stop(void);

/* Adds a segment of zeroed rows for new blocks.  One thread at a time.  False: there are as many as can be. */
bool table_add(uint64_t *keys, struct offheap_value *values, uint64_t capacity);
/* The capacity of the youngest segment if all fill up, so that another should come; else 0.  If an older segment has
 * emptied, new blocks go there from now on. */
uint64_t table_fills(void);
/* One block in so many, chosen by its address, is counted: the count tells how full a segment is. */
enum { TABLE_COUNTED = 256 };
static inline bool table_counts(const void *block) {
    return ((uint64_t)(uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 56 == 0;
}

/* Adds a block, or replaces the value of an address whose free was not seen.  False: full. */
bool table_insert(const void *block, struct offheap_value value);
/* Takes a block out.  Call it BEFORE the real free: afterwards another thread may own the address. */
bool table_remove(const void *block, struct offheap_value *value);

#endif
