/*
 * The live table: address -> value, in the live file, lock-free, read from outside.
 *
 *   KEYS    bucket 0: 8 keys (one cache line) | bucket 1: 8 keys | ...
 *   VALUES  in step with KEYS
 *   (private) one byte a bucket: how many keys went past it to a later bucket
 *
 * A lookup ends at the first bucket that no key went past, so a miss costs one cache
 * line and there are no tombstones (as in F14).  The outside reader copies twice and
 * keeps the rows that are equal in both copies.
 *
 * The table grows by segments; each segment is such a table.  New blocks go into one of them.  Blocks never move, so a
 * new segment stops no thread, and a reader meets a block that lives through the reading exactly once.
 * A lookup begins at the youngest segment and costs one cache line for each segment that lacks the block.
 *
 * A counting filter precedes the table, one byte for each hash of the address: the free of a block that is not sampled
 * ends there, in a line of 128 KiB that stays in L2.
 */
#ifndef OFFHEAP_TABLE_H
#define OFFHEAP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "recording.h"

#define TABLE_FILTER_BITS 17
extern _Atomic uint8_t table_filter[1 << TABLE_FILTER_BITS] __attribute__((visibility("hidden")));

/* Neighbouring blocks have neighbouring bytes: a thread that frees them one after the other stays in a cache line.
 * The upper bits spread blocks with equal alignment, such as blocks in separate mappings. */
static inline uint32_t table_filter_index(const void *block) {
    uint64_t address = (uint64_t)(uintptr_t)block;
    return (uint32_t)((address ^ address >> TABLE_FILTER_BITS) >> 4) & ((1 << TABLE_FILTER_BITS) - 1);
}

/* The fast path of free: true when `block` is surely not in the table. */
static inline bool table_lacks(const void *block) {
    return __builtin_expect(
        __atomic_load_n((const uint8_t *)&table_filter[table_filter_index(block)], __ATOMIC_RELAXED) == 0, 1);
}

/* Call for the mapped KEYS and VALUES of a new live file.  `exact`: the filter lets everything through, since an exact
 * recording fills it.  `most`: the greatest capacity of all segments together.  False: no memory. */
bool table_start(uint64_t *keys, struct offheap_value *values, uint64_t capacity, uint64_t most, bool exact);
/* Makes table_lacks true for every block. */
void table_stop(void);

/* Adds a segment of zeroed rows for new blocks.  One thread at a time.  False: no more segments are possible. */
bool table_add(uint64_t *keys, struct offheap_value *values, uint64_t capacity);
/* The capacity of the youngest segment if all fill up and the table needs another; else 0.  If an older segment has
 * emptied, new blocks go there from now on. */
uint64_t table_fills(void);
/* The table counts one block in TABLE_COUNTED, chosen by its address: the count tells how full a segment is. */
enum { TABLE_COUNTED = 256 };
static inline bool table_counts(const void *block) {
    return ((uint64_t)(uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 56 == 0;
}

/* Adds a block, or replaces the value of an address whose free no hook saw.  False: full. */
bool table_insert(const void *block, struct offheap_value value);
/* Takes a block out; `value` receives its value.  False: the table lacks the block.  Call it BEFORE the real free:
 * afterwards another thread may own the address. */
bool table_remove(const void *block, struct offheap_value *value);

#endif
