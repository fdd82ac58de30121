#define _GNU_SOURCE
#include "store/table_growth.h"

#include <stdatomic.h>
#include <time.h>

#include "platform/cgroup.h"
#include "platform/system.h"
#include "store/live_file.h"
#include "store/memory_bound.h"

enum {
    QUADRUPLED = 1 << 20, /* segments below this size grow fourfold: each segment costs every lookup a cache line */
    ROW_BYTES = sizeof(uint64_t) + sizeof(struct offheap_value),
    LEAST_ROWS = 1 << 13,  /* with fewer rows VALUES would not start on a page */
    ASKED_AGAIN = 8 << 20, /* prepared bytes between two readings of the memory limit, which take 50 us or more */
    PAUSE_NS = 1000000000, /* after a refusal */
    WAIT_NS = 500000,      /* longest wait of a thread whose block has no place */
    NAP_NS = 20000,        /* 70 us with the timer's slack */
};

static struct {
    _Atomic bool busy; /* one thread at a time */
    bool force;
    uint64_t rows;  /* of the segment in preparation; 0: there is none */
    uint64_t steps; /* of 64 KiB in a turn */
    uint64_t offset, done;
    _Atomic uint64_t refused_ns; /* 0: no refusal since the last step */
    _Atomic bool limited;        /* the memory limit was the reason */
    struct cgroup_scratch scratch;
} growth;

void growth_start(const struct options *options) {
    growth.force = options->force;
    growth.rows = 0;
    atomic_store(&growth.refused_ns, 0);
    atomic_store(&growth.limited, false);
    atomic_store(&growth.busy, false); /* a forked child may lack the thread that holds it */
}

/* Is there room for `bytes` more?  The table may take half of what is left below the memory limit now, as at the start
 * (section_sizes.h), and the probe an eighth of the limit in all: a program that grows as well may need the rest. */
static bool has_room(uint64_t bytes) {
    struct cgroup_room room;
    if (growth.force || !cgroup_read_using(&growth.scratch, &room)) return true;
    bool fits = bytes <= room.left / 2 && memory_taken() <= room.limit / 8;
    atomic_store_explicit(&growth.limited, !fits, memory_order_relaxed);
    return fits;
}

static void refuse(void) { atomic_store_explicit(&growth.refused_ns, system_coarse_ns(), memory_order_relaxed); }

static bool refused_lately(void) {
    uint64_t at = atomic_load_explicit(&growth.refused_ns, memory_order_relaxed);
    return at && system_coarse_ns() - at < PAUSE_NS;
}

static void begin(void) {
    uint64_t youngest = table_fills();
    if (!youngest) return;
    if (live->segments < OFFHEAP_SEGMENTS)
        for (uint64_t rows = youngest * (youngest < QUADRUPLED ? 4 : 2); rows >= youngest / 2 && rows >= LEAST_ROWS;
             rows /= 2) {
            uint64_t bytes = rows * ROW_BYTES;
            if (!memory_grant_growth(bytes)) continue;
            int64_t offset = has_room(bytes) ? live_extend(bytes) : -1;
            if (offset < 0) {
                memory_return(bytes);
                continue;
            }
            growth.rows = rows;
            growth.steps = rows > 2 * youngest ? rows / youngest / 2 : 1;
            growth.offset = (uint64_t)offset;
            growth.done = 0;
            return;
        }
    refuse();
}

static void advance(void) {
    uint64_t bytes = growth.rows * ROW_BYTES;
    if (growth.done && growth.done % ASKED_AGAIN == 0 && !has_room(bytes - growth.done)) {
        refuse(); /* the prepared part stays until there is room again */
        return;
    }
    /* One block in 128 takes a turn: a segment that is five eighths full at the first turn is 72 % full at the last,
     * and keys still find a place nearby. */
    for (uint64_t step = 0; step < growth.steps && growth.done < bytes; step++) {
        uint64_t length = live_populate_at(growth.offset + growth.done, bytes - growth.done);
        if (!length) { /* the file system is full */
            refuse();
            return;
        }
        growth.done += length;
    }
    atomic_store_explicit(&growth.refused_ns, 0, memory_order_relaxed);
    if (growth.done < bytes) return;
    uint64_t *keys = (uint64_t *)((char *)live + growth.offset);
    /* Publishes the segment to readers before blocks go there. */
    if (live_publish_segment(growth.offset, growth.rows))
        table_add(keys, (struct offheap_value *)(keys + growth.rows), growth.rows);
    growth.rows = 0;
}

void growth_turn(void) {
    if (refused_lately() || atomic_exchange_explicit(&growth.busy, true, memory_order_acquire)) return;
    if (!growth.rows) begin();
    if (growth.rows) advance();
    atomic_store_explicit(&growth.busy, false, memory_order_release);
}

bool growth_makes_room(uint64_t *waiting_since) {
    growth_turn();
    if (refused_lately()) {
        bool said = __atomic_load_n(&live->coverage, __ATOMIC_RELAXED) & OFFHEAP_SHORT_OF_MEMORY;
        if (!said && atomic_load_explicit(&growth.limited, memory_order_relaxed))
            live_cover(OFFHEAP_SHORT_OF_MEMORY, 0);
        return false;
    }
    uint64_t now = system_monotonic_ns();
    if (!*waiting_since) *waiting_since = now;
    if (now - *waiting_since > WAIT_NS) return false;
    /* Another thread prepares the segment.  Not nanosleep(3), which is a cancellation point; malloc must not be one. */
    if (atomic_load_explicit(&growth.busy, memory_order_relaxed))
        syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = NAP_NS}, NULL);
    return true;
}
