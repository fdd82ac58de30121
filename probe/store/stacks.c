#define _GNU_SOURCE
#include "store/stacks.h"

#include <stdatomic.h>
#include <string.h>

#include "guard/thread_state.h"
#include "platform/system.h"
#include "store/live_file.h"

enum {
    FARTHEST = 128, /* slots to try before the index counts as full */
};

static struct {
    _Atomic uint32_t *rows; /* by hash; 0 free */
    uint64_t slots;
} by_hash;

bool stacks_start(uint64_t capacity) {
    if (by_hash.rows) system_munmap((void *)by_hash.rows, by_hash.slots * sizeof *by_hash.rows);
    by_hash.slots = capacity * 2;
    by_hash.rows = system_pages(by_hash.slots * sizeof *by_hash.rows);
    return by_hash.rows != NULL;
}

static uint64_t hash_frames(const uint64_t *frames, size_t depth, enum offheap_stack_kind kind) {
    uint64_t hash = depth << 8 | kind;
    for (size_t i = 0; i < depth; i++) {
        hash = (hash ^ frames[i]) * UINT64_C(0x9FB21C651E98DF25);
        hash ^= hash >> 32;
    }
    return hash ? hash : 1; /* 0 marks a row that is not complete */
}

static bool same(const struct offheap_stack *row, uint64_t hash, const uint64_t *frames, size_t depth,
                 enum offheap_stack_kind kind) {
    const uint64_t *theirs = LIVE_ROWS(uint64_t, OFFHEAP_FRAMES) + row->frames;
    return row->hash == hash && row->depth == depth && row->kind == kind &&
           memcmp(theirs, frames, depth * sizeof *frames) == 0;
}

static uint32_t add(uint64_t hash, const uint64_t *frames, size_t depth, enum offheap_stack_kind kind, uint8_t flags) {
    int64_t first = live_reserve(OFFHEAP_FRAMES, depth);
    if (first < 0) return 0;
    int64_t row = live_reserve(OFFHEAP_STACKS, 1);
    if (row < 0) return 0;
    struct offheap_stack *stack = LIVE_ROWS(struct offheap_stack, OFFHEAP_STACKS) + row;
    if (!live_populate(OFFHEAP_COUNTERS, (uint64_t)(row + 1) * live->counter_shards)) {
        /* Completes a row without frames that nobody uses: readers stop at the first row without a hash. */
        __atomic_store_n(&stack->hash, 1, __ATOMIC_RELEASE);
        return 0;
    }
    memcpy(LIVE_ROWS(uint64_t, OFFHEAP_FRAMES) + first, frames, depth * sizeof *frames);
    stack->frames = (uint32_t)first;
    stack->depth = (uint16_t)depth;
    stack->kind = (uint8_t)kind;
    stack->flags = flags;
    stack->born = live_tick();
    __atomic_store_n(&stack->hash, hash, __ATOMIC_RELEASE);
    return (uint32_t)row;
}

uint32_t stack_intern(const uint64_t *frames, size_t depth, enum offheap_stack_kind kind, uint8_t flags) {
    uint64_t hash = hash_frames(frames, depth, kind);
    const struct offheap_stack *rows = LIVE_ROWS(struct offheap_stack, OFFHEAP_STACKS);
    uint32_t mine = 0;
    for (uint64_t i = 0; i < FARTHEST; i++) {
        _Atomic uint32_t *slot = &by_hash.rows[(hash + i) & (by_hash.slots - 1)];
        uint32_t row = atomic_load_explicit(slot, memory_order_acquire);
        if (row == 0) {
            /* If another thread wins the slot, the row stays unused, which is harmless. */
            if (!mine && !(mine = add(hash, frames, depth, kind, flags))) break;
            if (atomic_compare_exchange_strong_explicit(slot, &row, mine, memory_order_release, memory_order_acquire))
                return mine;
        }
        if (same(&rows[row], hash, frames, depth, kind)) return row;
    }
    live_lose(OFFHEAP_LOST_STACKS);
    return mine;
}

static struct offheap_counters *counters_of(uint32_t stack) {
    uint32_t shards = live->counter_shards;
    /* The TLS blocks of threads lie a stack apart: their addresses spread the threads over the shards. */
    uint32_t shard = shards == 1 ? 0 : (uint32_t)((uintptr_t)&self >> 12) * 2654435761u >> 30;
    shard &= shards - 1; /* a power of two */
    return LIVE_ROWS(struct offheap_counters, OFFHEAP_COUNTERS) + (uint64_t)stack * shards + shard;
}

void stack_count(uint32_t stack, size_t size, double weight) {
    if (live->mode != OFFHEAP_EXACT) {
        stack_count_sampled(stack, size, weight);
        return;
    }
    struct offheap_counters *counters = counters_of(stack);
    __atomic_fetch_add(&counters->samples, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counters->bytes, size, __ATOMIC_RELAXED); /* an addition takes 6 to 10 ns */
}

void stack_count_sampled(uint32_t stack, size_t size, double weight) {
    struct offheap_counters *counters = counters_of(stack);
    __atomic_fetch_add(&counters->samples, 1, __ATOMIC_RELAXED);
    double bytes = weight * (double)size;
    /* With w = 1/p: (1 - p) / p^2 = w (w - 1). */
    double blocks_variance = weight * (weight - 1);
    double kib = (double)size / 1024;
    __atomic_fetch_add(&counters->blocks, (uint64_t)(weight * 65536 + 0.5), __ATOMIC_RELAXED);
    __atomic_fetch_add(&counters->bytes, (uint64_t)(bytes + 0.5), __ATOMIC_RELAXED);
    __atomic_fetch_add(&counters->blocks_variance, (uint64_t)(blocks_variance + 0.5), __ATOMIC_RELAXED);
    __atomic_fetch_add(&counters->bytes_variance, (uint64_t)(blocks_variance * kib * kib + 0.5), __ATOMIC_RELAXED);
}

uint64_t stacks_samples(uint64_t enough) {
    const struct offheap_counters *counters = LIVE_ROWS(struct offheap_counters, OFFHEAP_COUNTERS);
    uint64_t rows = __atomic_load_n(&live->sections[OFFHEAP_STACKS].used, __ATOMIC_RELAXED) * live->counter_shards;
    uint64_t safe = live_populated(OFFHEAP_COUNTERS) / sizeof *counters, samples = 0;
    for (uint64_t row = 0; row < rows && row < safe && samples < enough; row++)
        samples += __atomic_load_n(&counters[row].samples, __ATOMIC_RELAXED);
    return samples < enough ? samples : enough;
}
