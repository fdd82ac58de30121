/*
 * table_steps: probe/store/table.c with its atomics replaced by steps of the model of table_model.c.
 *
 * Each atomic operation of the table becomes one call of `take`, which table_model.c defines.
 */
#ifndef TABLE_STEPS_H
#define TABLE_STEPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum kind { LOAD, STORE, SWAP, FENCE };

/* The next step of a thread. */
struct step {
    enum kind kind;
    bool release;
    unsigned bytes; /* 1 or 8 */
    void *at;
    uint64_t value, expected;
};

static uint64_t take(struct step step);

#define TAKE(kind, order, at, value, expected)                                                       \
    take((struct step){kind, (order) == memory_order_release, sizeof *(at), (void *)(uintptr_t)(at), \
                       (uint64_t)(value), (uint64_t)(expected)})
static bool swapped(uint64_t old, uint64_t expected) { return old == expected; }
#define SWAPPED(at, expected, value, order)                  \
    ({                                                       \
        uint64_t wanted = *(expected);                       \
        uint64_t old = TAKE(SWAP, order, at, value, wanted); \
        *(expected) = (__typeof__(*(expected)))old;          \
        swapped(old, wanted);                                \
    })
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
#define atomic_load_explicit(at, order) TAKE(LOAD, order, at, 0, 0)
#define atomic_store_explicit(at, value, order) ((void)TAKE(STORE, order, at, value, 0))
#define atomic_compare_exchange_strong_explicit(at, expected, value, order, failed) SWAPPED(at, expected, value, order)
#define atomic_compare_exchange_weak_explicit(at, expected, value, order, failed) SWAPPED(at, expected, value, order)
#define atomic_thread_fence(order) ((void)TAKE(FENCE, order, (uint64_t *)0, 0, 0))
#define __atomic_load_n(at, order) TAKE(LOAD, order, at, 0, 0)
#define __atomic_store_n(at, value, order) ((void)TAKE(STORE, order, at, value, 0))

/* Four buckets of one key each: two keys are enough for one to go past a bucket. */
#define TABLE_BUCKET 1
#define TABLE_FARTHEST 2
#ifndef TABLE_SOURCE
#define TABLE_SOURCE "store/table.c"
#endif
#include TABLE_SOURCE

#endif
