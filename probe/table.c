#define _GNU_SOURCE
#include "table.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "system.h"

_Atomic uint8_t table_filter[1 << TABLE_FILTER_BITS];

/* Smaller in tests/table_model.c, which tries out everything. */
#ifndef TABLE_BUCKET
#define TABLE_BUCKET 8
#define TABLE_FARTHEST 64
#endif

enum {
    BUCKET = TABLE_BUCKET,
    FARTHEST = TABLE_FARTHEST, /* buckets a key may go past: with 512 neighbours taken the table is full */
    STUCK = 255,   /* a counter that reached it stays: it can no longer be counted down rightly */
};

static struct {
    _Atomic uint64_t *keys;
    struct offheap_value *values;
    _Atomic uint8_t *passed; /* by bucket */
    uint64_t buckets;
    size_t passed_bytes;
    unsigned bits; /* buckets = 1 << bits */
    bool exact;
} table;

bool table_start(uint64_t *keys, struct offheap_value *values, uint64_t capacity, bool exact) {
    if (table.passed) system_munmap((void *)table.passed, table.passed_bytes);
    table.buckets = capacity / BUCKET;
    table.passed_bytes = (table.buckets + 4095) & ~UINT64_C(4095);
    table.passed = system_pages(table.passed_bytes);
    if (!table.passed) return false;
    table.keys = (_Atomic uint64_t *)keys;
    table.values = values;
    table.bits = (unsigned)__builtin_ctzll(table.buckets);
    table.exact = exact;
    memset((void *)table_filter, exact ? STUCK : 0, sizeof table_filter);
    return true;
}

void table_stop(void) { memset((void *)table_filter, 0, sizeof table_filter); }

static void count_up(_Atomic uint8_t *counter) {
    uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);
    while (count != STUCK && !atomic_compare_exchange_weak_explicit(counter, &count, count + 1, memory_order_relaxed,
                                                                    memory_order_relaxed))
        ;
}

static void count_down(_Atomic uint8_t *counter) {
    uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);
    while (count != STUCK && count != 0 &&
           !atomic_compare_exchange_weak_explicit(counter, &count, count - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

/*
 * Where a key is looked for: in the two buckets of its neighbourhood, then where a hash scatters it.
 *
 * A neighbourhood is 128 bytes of address space to a bucket, 8 blocks by malloc's alignment of 16.  So blocks
 * that lie together share cache lines and pages; scattered from the start, each would cost a TLB miss
 * for its key and one for its value.  Each region as large as the table is permuted in its own way, or blocks
 * that are aligned alike would meet.  Dense regions that do meet overflow into the scattered part, which
 * has room as long as the table has.
 */
static uint64_t nth_bucket(uint64_t key, unsigned n) {
    uint64_t unit = key >> 7, region = unit >> table.bits;
    if (n < 2) return ((unit ^ region * UINT64_C(0x9E3779B97F4A7C15) >> (64 - table.bits)) + n) & (table.buckets - 1);
    /* Anew for each n: in steps, what overflows from dense regions would meet others. */
    uint64_t hash = (key + n * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);
    hash = (hash ^ hash >> 32) * UINT64_C(0x94D049BB133111EB);
    return hash >> (64 - table.bits);
}

/* The slot of a key, or -1; `distance` becomes how many buckets it went past. */
static int64_t find(uint64_t key, unsigned *distance) {
    for (unsigned n = 0; n <= FARTHEST; n++) {
        uint64_t bucket = nth_bucket(key, n);
        for (unsigned i = 0; i < BUCKET; i++) {
            if (atomic_load_explicit(&table.keys[bucket * BUCKET + i], memory_order_relaxed) == key) {
                *distance = n;
                return (int64_t)(bucket * BUCKET + i);
            }
        }
        if (atomic_load_explicit(&table.passed[bucket], memory_order_relaxed) == 0) break;
    }
    return -1;
}

static void write_value(uint64_t slot, struct offheap_value value) {
    /* Word by word: the outside reader may copy in between, and compares its two copies. */
    uint64_t tail;
    memcpy(&tail, &value.stack, sizeof tail);
    uint64_t *words = (uint64_t *)&table.values[slot];
    __atomic_store_n(&words[0], value.block, __ATOMIC_RELAXED);
    __atomic_store_n(&words[1], tail, __ATOMIC_RELAXED);
}

static struct offheap_value read_value(uint64_t slot) {
    const uint64_t *words = (const uint64_t *)&table.values[slot];
    struct offheap_value value;
    value.block = __atomic_load_n(&words[0], __ATOMIC_RELAXED);
    uint64_t tail = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
    memcpy(&value.stack, &tail, sizeof tail);
    return value;
}

bool table_insert(const void *block, struct offheap_value value) {
    uint64_t key = (uint64_t)(uintptr_t)block;
    unsigned distance;
    int64_t old = find(key, &distance);
    if (old >= 0) {
        atomic_store_explicit(&table.keys[old], key | 1, memory_order_relaxed);
        /* Or a reader on aarch64 finds half of the new value under the old key, in both of its copies. */
        atomic_thread_fence(memory_order_release);
        write_value((uint64_t)old, value);
        atomic_store_explicit(&table.keys[old], key, memory_order_release);
        return true;
    }
    for (unsigned n = 0; n <= FARTHEST; n++) {
        uint64_t bucket = nth_bucket(key, n);
        for (unsigned i = 0; i < BUCKET; i++) {
            _Atomic uint64_t *slot = &table.keys[bucket * BUCKET + i];
            uint64_t empty = 0;
            if (atomic_load_explicit(slot, memory_order_relaxed) != 0 ||
                !atomic_compare_exchange_strong_explicit(slot, &empty, key | 1, memory_order_acquire,
                                                         memory_order_relaxed))
                continue;
            write_value(bucket * BUCKET + i, value);
            atomic_store_explicit(slot, key, memory_order_release);
            if (!table.exact) count_up(&table_filter[table_filter_index(block)]);
            return true;
        }
        count_up(&table.passed[bucket]);
    }
    for (unsigned n = 0; n <= FARTHEST; n++) count_down(&table.passed[nth_bucket(key, n)]);
    return false;
}

bool table_remove(const void *block, struct offheap_value *value) {
    uint64_t key = (uint64_t)(uintptr_t)block;
    unsigned distance;
    int64_t slot = find(key, &distance);
    if (slot < 0) return false;
    *value = read_value((uint64_t)slot);
    /* A double free races with itself: only one of the two may count down. */
    if (!atomic_compare_exchange_strong_explicit(&table.keys[slot], &key, 0, memory_order_release,
                                                 memory_order_relaxed))
        return false;
    for (unsigned n = 0; n < distance; n++) count_down(&table.passed[nth_bucket(key, n)]);
    if (!table.exact) count_down(&table_filter[table_filter_index(block)]);
    return true;
}
