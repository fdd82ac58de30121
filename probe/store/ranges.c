#define _GNU_SOURCE
#include "store/ranges.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "platform/system.h"

/*
 * The rows in the live file never move, so that an outside reader finds each row
 * whole or not at all; a private index keeps the order:
 *
 *   order[]  row numbers by start address     free_rows[]  a stack of the rest
 *
 * Mapping costs a system call, so a lock and a memmove of a few KiB are cheap here.
 */
static struct {
    _Atomic int locked;
    struct offheap_range *rows;
    uint32_t *order;
    uint32_t *free_rows;
    uint32_t count, free_count, capacity;
} set;

/* Gives up after a while: the program must not wait for a holder that is preempted for long. */
static bool lock(void) {
    for (int i = 0; i < 100000; i++) {
        if (!atomic_exchange_explicit(&set.locked, 1, memory_order_acquire)) return true;
        if (i % 64 == 63) sched_yield();
    }
    return false;
}

static void unlock(void) { atomic_store_explicit(&set.locked, 0, memory_order_release); }

bool ranges_start(struct offheap_range *rows, uint64_t capacity) {
    size_t bytes = capacity * sizeof(uint32_t);
    if (set.order) system_munmap(set.order, (size_t)set.capacity * 2 * sizeof(uint32_t));
    set.order = system_pages(bytes * 2);
    if (!set.order) return false;
    set.free_rows = set.order + capacity;
    set.rows = rows;
    set.capacity = set.free_count = (uint32_t)capacity;
    set.count = 0;
    for (uint32_t i = 0; i < set.capacity; i++) set.free_rows[i] = set.capacity - 1 - i;
    return true;
}

/* The first place in order[] whose range ends above `address`. */
static uint32_t first_ending_after(uint64_t address) {
    uint32_t low = 0, high = set.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set.rows[set.order[middle]].end > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

typedef uint64_t __attribute__((may_alias)) word; /* a row also holds shorter numbers */

static void write_row(struct offheap_range *row, const struct offheap_range *range) {
    word words[sizeof *range / sizeof(word)], *to = (word *)row;
    memcpy(words, range, sizeof words);
    /* start is 0 while the rest changes: the reader skips the row. */
    __atomic_store_n(&to[0], 0, __ATOMIC_RELAXED);
    /* Without the fence a reader on aarch64 could find the rest of the new range with the old start, in both of its
     * copies. */
    atomic_thread_fence(memory_order_release);
    /* Word by word: the outside reader may copy at the same time, and compares its two copies. */
    for (size_t i = 1; i < sizeof words / sizeof *words; i++) __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
    __atomic_store_n(&to[0], words[0], __ATOMIC_RELEASE);
}

static bool insert_at(uint32_t place, const struct offheap_range *range) {
    if (set.free_count == 0) return false;
    uint32_t row = set.free_rows[--set.free_count];
    write_row(&set.rows[row], range);
    memmove(set.order + place + 1, set.order + place, (set.count - place) * sizeof *set.order);
    set.order[place] = row;
    set.count++;
    return true;
}

static void take(struct ranges_taken *taken, struct offheap_range range, uint64_t start, uint64_t end) {
    if (!taken) return;
    if (taken->count == RANGES_TAKEN) {
        taken->more++;
        return;
    }
    if (range.start < start) range.start = start;
    if (range.end > end) range.end = end;
    taken->part[taken->count++] = range;
}

static bool remove_locked(uint64_t start, uint64_t end, struct ranges_taken *taken) {
    uint32_t place = first_ending_after(start), kept = place, at = place;
    for (; at < set.count; at++) {
        struct offheap_range *row = &set.rows[set.order[at]];
        struct offheap_range range = *row;
        if (range.start >= end) break;
        take(taken, range, start, end);
        struct offheap_range head = range, tail = range;
        head.end = start;
        tail.start = end;
        bool has_head = range.start < start;
        bool has_tail = range.end > end;
        if (has_head && has_tail) {
            /* Cut in two: nothing else can overlap. */
            write_row(row, &head);
            return insert_at(at + 1, &tail);
        }
        if (has_head || has_tail) {
            write_row(row, has_head ? &head : &tail);
            set.order[kept++] = set.order[at];
        } else {
            __atomic_store_n(&row->start, 0, __ATOMIC_RELEASE);
            set.free_rows[set.free_count++] = set.order[at];
        }
    }
    if (kept != at) {
        memmove(set.order + kept, set.order + at, (set.count - at) * sizeof *set.order);
        set.count -= at - kept;
    }
    return true;
}

bool ranges_insert(const struct offheap_range *range) {
    if (!lock()) return false;
    remove_locked(range->start, range->end, NULL);
    bool ok = insert_at(first_ending_after(range->start), range);
    unlock();
    return ok;
}

bool ranges_remove(uint64_t start, uint64_t end, struct ranges_taken *taken) {
    if (!lock()) return false;
    bool ok = remove_locked(start, end, taken);
    unlock();
    return ok;
}
