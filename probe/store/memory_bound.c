#include "store/memory_bound.h"

#include <stdatomic.h>

#include "platform/compiler.h"

enum { FOR_STACKS = 16 }; /* the live table leaves this part of its memory to new stacks, methods and threads */

static struct {
    _Atomic uint64_t taken; /* bytes, the probe's private memory included */
    _Atomic uint64_t bound; /* bytes that may be taken */
    uint64_t most;          /* bytes that the live table may grow to; 0: it does not grow */
    uint64_t in_all;        /* the larger of `most` and the bound at the start */
    uint64_t at_start;      /* bytes taken at the start, or bytes that a refused file needs */
} memory;

void memory_begin(uint64_t bound, uint64_t most, uint64_t taken) {
    atomic_store(&memory.bound, bound);
    memory.most = most;
    memory.in_all = most > bound ? most : bound;
    memory.at_start = taken;
    atomic_store(&memory.taken, taken);
}

uint64_t memory_bound(void) { return atomic_load(&memory.bound); }
uint64_t memory_in_all(void) { return memory.in_all; }
uint64_t memory_taken(void) { return atomic_load(&memory.taken); }

uint64_t memory_for_growth(void) {
    uint64_t taken = memory_taken();
    return memory.most > taken ? memory.most - taken : 0;
}

bool memory_grant(uint64_t bytes) {
    uint64_t taken = atomic_fetch_add_explicit(&memory.taken, bytes, memory_order_relaxed) + bytes;
    if (likely(taken <= memory.in_all && taken <= atomic_load_explicit(&memory.bound, memory_order_relaxed)))
        return true;
    atomic_fetch_sub_explicit(&memory.taken, bytes, memory_order_relaxed);
    return false;
}

bool memory_grant_growth(uint64_t bytes) {
    uint64_t taken = atomic_fetch_add(&memory.taken, bytes) + bytes;
    atomic_fetch_add(&memory.bound, bytes); /* everything else that grows keeps its room */
    if (taken <= memory.most - memory.most / FOR_STACKS) return true;
    memory_return(bytes);
    return false;
}

void memory_return(uint64_t bytes) {
    atomic_fetch_sub(&memory.bound, bytes);
    atomic_fetch_sub(&memory.taken, bytes);
}

void memory_refused(uint64_t *bound, uint64_t *least) {
    *bound = atomic_load(&memory.bound);
    *least = memory.at_start;
}
