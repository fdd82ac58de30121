#define _GNU_SOURCE
#include "store/table.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "platform/system.h"

_Atomic uint8_t table_filter[1 << TABLE_FILTER_BITS];

/* tests/table_model.c makes these smaller, since it tries every order of steps. */
#ifndef TABLE_BUCKET
#define TABLE_BUCKET 8
#define TABLE_FARTHEST 64
#endif

enum {
    BUCKET = TABLE_BUCKET,
    FARTHEST = TABLE_FARTHEST, /* buckets that a key may go past: with all their 512 slots taken the segment is full */
    CROWDED = 8,               /* buckets that a key goes past when four fifths of the segment are taken */
    CAN_TELL = 1 << 17,        /* with so many rows, 1 block in TABLE_COUNTED tells how many are taken, to 5 % */
    STUCK = 255,               /* a counter that reaches this value stays, since it may have missed increments */
    SEGMENTS = OFFHEAP_SEGMENTS + 1,
};

struct segment {
    _Atomic(_Atomic uint64_t *) keys;
    struct offheap_value *values;
    _Atomic uint8_t *passed; /* by bucket */
    uint64_t buckets;
    unsigned bits; /* buckets = 1 << bits */
    _Atomic bool crowded;
    _Atomic int64_t counted; /* blocks in the segment for which table_counts is true */
};

static struct {
    struct segment segments[SEGMENTS];
    _Atomic uint64_t count;  /* segments; the fields of each are written before it is counted */
    _Atomic uint64_t target; /* the segment where new blocks go */
    _Atomic uint8_t *passed; /* of all segments, one behind the other */
    size_t passed_bytes;
    bool exact;
} table;

bool table_start(uint64_t *keys, struct offheap_value *values, uint64_t capacity, uint64_t most, bool exact) {
    if (table.passed) system_munmap((void *)table.passed, table.passed_bytes);
    /* For all future segments: a later mmap could block an allocating thread. */
    table.passed_bytes = ((most > capacity ? most : capacity) / BUCKET + 4095) & ~UINT64_C(4095);
    table.passed = system_pages(table.passed_bytes);
    if (!table.passed) return false;
    atomic_store(&table.count, 0);
    atomic_store(&table.target, 0);
    table.exact = exact;
    memset((void *)table_filter, exact ? STUCK : 0, sizeof table_filter);
    return table_add(keys, values, capacity);
}

void table_stop(void) { memset((void *)table_filter, 0, sizeof table_filter); }

bool table_add(uint64_t *keys, struct offheap_value *values, uint64_t capacity) {
    uint64_t count = atomic_load_explicit(&table.count, memory_order_relaxed), buckets = capacity / BUCKET;
    if (count == SEGMENTS) return false;
    struct segment *segment = &table.segments[count];
    _Atomic uint8_t *passed = count ? segment[-1].passed + segment[-1].buckets : table.passed;
    if (passed + buckets > table.passed + table.passed_bytes) return false;
    segment->values = values;
    segment->passed = passed;
    segment->buckets = buckets;
    segment->bits = (unsigned)__builtin_ctzll(buckets);
    segment->crowded = false;
    segment->counted = 0;
    atomic_store_explicit(&segment->keys, (_Atomic uint64_t *)keys, memory_order_relaxed);
    /* A thread that sees the new count finds the segment complete. */
    atomic_store_explicit(&table.count, count + 1, memory_order_release);
    /* A thread that puts a block there sees the new count, and so does a thread that takes the block out. */
    atomic_store_explicit(&table.target, count, memory_order_release);
    return true;
}

static struct segment *segment_at(uint64_t number) { return &table.segments[number]; }

static _Atomic uint64_t *keys_of(const struct segment *segment) {
    return (_Atomic uint64_t *)(uintptr_t)atomic_load_explicit(&segment->keys, memory_order_relaxed);
}

/* Blocks in the segment, estimated. */
static uint64_t blocks_in(const struct segment *segment) {
    int64_t counted = atomic_load_explicit(&segment->counted, memory_order_relaxed);
    return counted > 0 ? (uint64_t)counted * TABLE_COUNTED : 0;
}

uint64_t table_fills(void) {
    uint64_t count = atomic_load_explicit(&table.count, memory_order_acquire);
    uint64_t target = atomic_load_explicit(&table.target, memory_order_relaxed);
    struct segment *full = segment_at(target);
    uint64_t capacity = full->buckets * BUCKET;
    if (blocks_in(full) < capacity / 8 * 5 && !full->crowded) return 0;
    full->crowded = false;
    uint64_t best = target, free = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t whole = segment_at(i)->buckets * BUCKET, taken = blocks_in(segment_at(i));
        if (i != target && taken < whole / 2 && whole - taken > free) best = i, free = whole - taken;
    }
    /* An emptied segment that is small beside the youngest would soon be full again. */
    uint64_t youngest = segment_at(count - 1)->buckets * BUCKET;
    if (best != target && free > youngest / 8) {
        atomic_store_explicit(&table.target, best, memory_order_release); /* as in table_add */
        return 0;
    }
    return youngest;
}

static void count_up(_Atomic uint8_t *counter) {
    uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);
    while (count != STUCK && !atomic_compare_exchange_weak_explicit(counter, &count, count + 1, memory_order_relaxed,
                                                                    memory_order_relaxed));
}

static void count_down(_Atomic uint8_t *counter) {
    uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);
    while (
        count != STUCK && count != 0 &&
        !atomic_compare_exchange_weak_explicit(counter, &count, count - 1, memory_order_relaxed, memory_order_relaxed));
}

static void count_block(struct segment *segment, const void *block, int64_t change) {
    if (table_counts(block)) atomic_fetch_add_explicit(&segment->counted, change, memory_order_relaxed);
}

/*
 * The n-th bucket to try for a key: first the two buckets of its neighbourhood, then buckets that a hash scatters.
 *
 * A neighbourhood is 128 bytes of address space for each bucket, 8 blocks by malloc's alignment of 16.  So blocks that
 * lie together share cache lines and pages; a scattered block costs a TLB miss for its key and one for its value.  Each
 * region as large as the segment has its own permutation, since blocks with equal alignment would collide otherwise.
 * Dense regions that collide overflow into the scattered part, which has room as long as the segment has.
 */
static uint64_t nth_bucket(const struct segment *segment, uint64_t key, unsigned n) {
    uint64_t unit = key >> 7, region = unit >> segment->bits;
    unsigned shift = 64 - segment->bits;
    if (n < 2) return ((unit ^ region * UINT64_C(0x9E3779B97F4A7C15) >> shift) + n) & (segment->buckets - 1);
    /* Hashes anew for each n: with fixed steps, the overflow of dense regions would collide with others. */
    uint64_t hash = (key + n * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);
    hash = (hash ^ hash >> 32) * UINT64_C(0x94D049BB133111EB);
    return hash >> shift;
}

/* The place of a key: its segment, its slot there, and the number of buckets that the key went past. */
struct place {
    struct segment *segment;
    uint64_t slot;
    unsigned distance;
};

static bool find_in(struct segment *segment, uint64_t key, struct place *place) {
    _Atomic uint64_t *keys = keys_of(segment);
    for (unsigned n = 0; n <= FARTHEST; n++) {
        uint64_t bucket = nth_bucket(segment, key, n);
        for (unsigned i = 0; i < BUCKET; i++) {
            if (atomic_load_explicit(&keys[bucket * BUCKET + i], memory_order_relaxed) == key) {
                *place = (struct place){segment, bucket * BUCKET + i, n};
                return true;
            }
        }
        if (atomic_load_explicit(&segment->passed[bucket], memory_order_relaxed) == 0) break;
    }
    return false;
}

static bool find(uint64_t key, struct place *place) {
    for (uint64_t i = atomic_load_explicit(&table.count, memory_order_acquire); i-- > 0;)
        if (find_in(segment_at(i), key, place)) return true;
    return false;
}

static void write_value(const struct segment *segment, uint64_t slot, struct offheap_value value) {
    /* Word by word: the outside reader may copy at the same time, and compares its two copies. */
    uint64_t tail;
    memcpy(&tail, &value.stack, sizeof tail);
    uint64_t *words = (uint64_t *)&segment->values[slot];
    __atomic_store_n(&words[0], value.block, __ATOMIC_RELAXED);
    __atomic_store_n(&words[1], tail, __ATOMIC_RELAXED);
}

static struct offheap_value read_value(const struct segment *segment, uint64_t slot) {
    const uint64_t *words = (const uint64_t *)&segment->values[slot];
    struct offheap_value value;
    value.block = __atomic_load_n(&words[0], __ATOMIC_RELAXED);
    uint64_t tail = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
    memcpy(&value.stack, &tail, sizeof tail);
    return value;
}

/* In a completely full segment each lookup goes past dozens of buckets.  A small segment has too few counted blocks
 * for an estimate. */
static bool is_full(const struct segment *segment) {
    uint64_t capacity = segment->buckets * BUCKET;
    return capacity >= CAN_TELL && blocks_in(segment) > capacity / 16 * 15;
}

/* Inserts a key that is in no segment. */
static bool insert_into(struct segment *segment, uint64_t key, struct offheap_value value) {
    if (is_full(segment)) return false;
    _Atomic uint64_t *keys = keys_of(segment);
    for (unsigned n = 0; n <= FARTHEST; n++) {
        uint64_t bucket = nth_bucket(segment, key, n);
        for (unsigned i = 0; i < BUCKET; i++) {
            _Atomic uint64_t *slot = &keys[bucket * BUCKET + i];
            uint64_t empty = 0;
            if (atomic_load_explicit(slot, memory_order_relaxed) != 0 ||
                !atomic_compare_exchange_strong_explicit(slot, &empty, key | 1, memory_order_acquire,
                                                         memory_order_relaxed))
                continue;
            write_value(segment, bucket * BUCKET + i, value);
            atomic_store_explicit(slot, key, memory_order_release);
            return true;
        }
        count_up(&segment->passed[bucket]);
        if (n == CROWDED) segment->crowded = true;
    }
    for (unsigned n = 0; n <= FARTHEST; n++) count_down(&segment->passed[nth_bucket(segment, key, n)]);
    return false;
}

/* Finds room for a new key: first in the segment for new blocks, then anywhere. */
static struct segment *insert_anywhere(uint64_t key, struct offheap_value value) {
    struct segment *target = segment_at(atomic_load_explicit(&table.target, memory_order_acquire));
    if (insert_into(target, key, value)) return target;
    for (uint64_t i = atomic_load_explicit(&table.count, memory_order_acquire); i-- > 0;)
        if (segment_at(i) != target && insert_into(segment_at(i), key, value)) return segment_at(i);
    return NULL;
}

bool table_insert(const void *block, struct offheap_value value) {
    uint64_t key = (uint64_t)(uintptr_t)block;
    struct place old;
    if (find(key, &old)) {
        _Atomic uint64_t *slot = &keys_of(old.segment)[old.slot];
        atomic_store_explicit(slot, key | 1, memory_order_relaxed);
        /* Without the fence a reader on aarch64 could find half of the new value under the old key, in both of its
         * copies. */
        atomic_thread_fence(memory_order_release);
        write_value(old.segment, old.slot, value);
        atomic_store_explicit(slot, key, memory_order_release);
        return true;
    }
    struct segment *segment = insert_anywhere(key, value);
    if (!segment) return false;
    if (!table.exact) count_up(&table_filter[table_filter_index(block)]);
    count_block(segment, block, 1);
    return true;
}

bool table_remove(const void *block, struct offheap_value *value) {
    uint64_t key = (uint64_t)(uintptr_t)block;
    struct place place;
    if (!find(key, &place)) return false;
    *value = read_value(place.segment, place.slot);
    /* Two frees of one block race: only one of them may count down. */
    if (!atomic_compare_exchange_strong_explicit(&keys_of(place.segment)[place.slot], &key, 0, memory_order_release,
                                                 memory_order_relaxed))
        return false;
    for (unsigned n = 0; n < place.distance; n++) count_down(&place.segment->passed[nth_bucket(place.segment, key, n)]);
    if (!table.exact) count_down(&table_filter[table_filter_index(block)]);
    count_block(place.segment, block, -1);
    return true;
}
