#define _GNU_SOURCE
#include "sampling/record.h"

#include <errno.h>
#include <unistd.h>

#include "guard/guard.h"
#include "guard/thread_state.h"
#include "platform/compiler.h"
#include "sampling/budget.h"
#include "sampling/otel_memory.h"
#include "sampling/sampler.h"
#include "sampling/stack_capture.h"
#include "sampling/wake.h"
#include "store/live_file.h"
#include "store/ranges.h"
#include "store/stacks.h"
#include "store/table.h"
#include "store/table_growth.h"
#include "store/threads.h"

static struct offheap_value value_of(size_t size, uint32_t stack) {
    uint64_t asked = size < OFFHEAP_VALUE_SIZE_MASK ? size : OFFHEAP_VALUE_SIZE_MASK;
    return (struct offheap_value){
        .block = asked | (uint64_t)sampler_code() << OFFHEAP_VALUE_INTERVAL_SHIFT |
                 (uint64_t)thread_row() << OFFHEAP_VALUE_THREAD_SHIFT,
        .stack = stack,
        .birth = live_tick(),
    };
}

/* Tells readers that the process lives: a plain store, about once a tick at most. */
static void beat(uint32_t birth) {
    uint64_t now = live->start_monotonic_ns + (uint64_t)birth * live->tick_ns;
    if (live->heartbeat_ns < now) __atomic_store_n(&live->heartbeat_ns, now, __ATOMIC_RELAXED);
}

/* False: there is no room, and the block is counted as lost. */
static bool insert(void *block, struct offheap_value value) {
    if (likely(table_insert(block, value))) {
        if (unlikely(growth_due(block))) growth_turn();
        return true;
    }
    uint64_t waiting_since = 0;
    while (growth_makes_room(&waiting_since))
        if (table_insert(block, value)) return true;
    live_lose(OFFHEAP_LOST_BLOCKS);
    return false;
}

/* A block or a mapping that is not recorded: nothing records, or the thread is inside the probe. */
static void skip_unrecorded(size_t size) {
    if (!self.inside) {
        sampler_takes(size); /* keeps the countdown going while nothing records */
    } else if (self.inside != THREAD_OWN_DOING && guard_enter_nested()) {
        live_lose(OFFHEAP_LOST_REENTRIES);
        guard_leave_nested();
    }
}

void record_block(void *block, size_t size, enum offheap_hook hook, struct unwind_registers *caller) {
    int saved = errno;
    if (!guard_enter() && !(probe_wake() && guard_enter())) {
        skip_unrecorded(size);
        errno = saved;
        return;
    }
    uint64_t began = budget_clock();
    if (sampler_takes(size)) {
        uint32_t stack = stack_capture(hook, OFFHEAP_MALLOC, caller);
        struct offheap_value value = value_of(size, stack);
        double weight = sampler_weight(size);
        stack_count(stack, size, weight);
        /* No free would ever follow for a block that the table lacks. */
        if (insert(block, value)) otel_memory_allocated(block, size, weight);
        beat(value.birth);
        budget_spend(began, size);
    }
    budget_adjust();
    guard_leave();
    errno = saved;
}

bool record_forget(void *block, struct offheap_value *kept) {
    struct offheap_value value;
    if (!guard_enter_nested()) return false;
    uint64_t began = budget_clock_of_free();
    bool found = table_remove(block, kept ? kept : &value);
    if (found) otel_memory_freed(block);
    budget_spend_on_free(began, found);
    guard_leave_nested();
    return found;
}

void record_restore(void *block, struct offheap_value kept) {
    if (!guard_enter_nested()) return;
    size_t size = kept.block & OFFHEAP_VALUE_SIZE_MASK;
    uint8_t code = (uint8_t)(kept.block >> OFFHEAP_VALUE_INTERVAL_SHIFT);
    if (!table_insert(block, kept)) live_lose(OFFHEAP_LOST_BLOCKS);
    else otel_memory_allocated(block, size, sampler_weight_under(size, code));
    guard_leave_nested();
}

void record_mapping(void *start, size_t length, enum offheap_hook hook, struct unwind_registers *caller,
                    uint32_t birth) {
    int saved = errno;
    if (!guard_enter()) {
        skip_unrecorded(length);
        errno = saved;
        return;
    }
    uint64_t began = budget_clock();
    if (sampler_takes(length)) {
        struct offheap_range range = {
            .start = (uint64_t)(uintptr_t)start,
            .end = (uint64_t)(uintptr_t)start + length,
            .length_at_birth = length,
            .stack = stack_capture(hook, OFFHEAP_MMAP, caller),
            .birth = birth ? birth : live_tick(),
            .thread = thread_row(),
            .interval = sampler_code(),
        };
        stack_count(range.stack, length, sampler_weight(length));
        if (!ranges_insert(&range)) live_lose(OFFHEAP_LOST_RANGES);
        beat(live_tick());
        budget_spend(began, length);
    }
    budget_adjust();
    guard_leave();
    errno = saved;
}

void record_unmapping(void *start, size_t length, struct ranges_taken *taken) {
    uint64_t from = (uint64_t)(uintptr_t)start, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (from % page) return; /* the kernel refuses */
    /* The range set has a lock, so unlike record_forget this must not nest. */
    if (!guard_enter()) {
        if (self.inside && guard_enter_nested()) {
            live_lose(OFFHEAP_LOST_UNMAPS);
            guard_leave_nested();
        }
        return;
    }
    /* munmap rounds the length up to whole pages. */
    if (!ranges_remove(from, (from + length + page - 1) & -page, taken)) live_lose(OFFHEAP_LOST_UNMAPS);
    guard_leave();
}

void record_moved(const struct ranges_taken *taken, void *from, void *to, size_t length) {
    if (!taken->count || !guard_enter()) return;
    int saved = errno;
    uint64_t old = (uint64_t)(uintptr_t)from, now = (uint64_t)(uintptr_t)to, page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t end = now + ((length + page - 1) & -page);
    for (uint32_t i = 0; i < taken->count; i++) {
        struct offheap_range moved = taken->part[i];
        moved.start = now + (moved.start - old);
        moved.end = now + (moved.end - old);
        if (moved.end > end) moved.end = end;
        if (moved.start < moved.end && !ranges_insert(&moved)) live_lose(OFFHEAP_LOST_RANGES);
    }
    for (uint32_t i = 0; i < taken->more; i++) live_lose(OFFHEAP_LOST_RANGES);
    guard_leave();
    errno = saved;
}
