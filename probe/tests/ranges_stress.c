/*
 * Threads map and unmap ranges of the set, disjointly and over each other.  A reader copies the rows twice, as
 * src/offheap/probe/live_files/live_file.py does: from memory and by pread() of the file.  Run under TSan, ASan, UBSan.
 *
 * The number of an insertion determines every field of its row, and no two insertions have the same number, so a torn
 * row shows.  Rows that are equal in both copies all existed at one moment in between, so no two may overlap.
 *
 * Each call draws a ticket before and after; the tickets tell which insertion and which removal of a page may be the
 * last.  Tickets are relaxed: stronger ones would show TSan an order that the set itself must make.  The order holds
 * nevertheless, because the set's lock lies between the two tickets.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/ranges.h"

/* A build that interrupts each row's writer takes three times as long, and sets fewer rounds. */
#ifndef STRESS_ROUNDS
#define STRESS_ROUNDS 60000
#endif

enum {
    THREADS = 4,
    SHARED = 256, /* pages that all threads map; the OWN pages of each thread follow */
    OWN = 64,
    UNTOUCHED = 1 + SHARED + THREADS * OWN, /* page 0 is unused: start 0 marks a free row */
    PAGES = UNTOUCHED + 1,
    LONGEST = 40, /* more than RANGES_TAKEN, so that a removal may take more parts than fit */
    CAPACITY = 1024,
    ROUNDS = STRESS_ROUNDS,
    MOST_ROUNDS = 50 * ROUNDS,
    BYTES = CAPACITY * sizeof(struct offheap_range),
};

static struct offheap_range *rows;
static int file;
static atomic_bool finished;
static _Atomic long seen, moving;

static _Atomic uint64_t ticket = 1;
static _Atomic uint64_t begun[PAGES];   /* ticket at the start of the last call for the page */
static _Atomic uint64_t emptied[PAGES]; /* ticket at the end of the last removal of the page */
struct insertion {
    _Atomic uint64_t taken; /* pages that removals reported, by bit */
    _Atomic uint64_t ended;
};
static struct insertion *insertions;

static _Noreturn void wrong(const char *what, const struct offheap_range *row) {
    fprintf(stderr, "%s: [%lx, %lx) of %lx, stack %x, birth %x, thread %x, interval %x\n", what,
            (unsigned long)row->start, (unsigned long)row->end, (unsigned long)row->length_at_birth, row->stack,
            row->birth, row->thread, row->interval);
    exit(1);
}

static uint64_t draw(void) { return atomic_fetch_add_explicit(&ticket, 1, memory_order_relaxed); }

static void raise_to(_Atomic uint64_t *at, uint64_t value) {
    uint64_t old = atomic_load_explicit(at, memory_order_relaxed);
    while (old < value &&
           !atomic_compare_exchange_weak_explicit(at, &old, value, memory_order_relaxed, memory_order_relaxed));
}

static uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

/* The pages of a call: half the calls go to the thread's own pages, half to the shared ones. */
static void place_of(uint32_t number, uint64_t *first, uint64_t *pages) {
    uint32_t random = mixed(number), thread = number % THREADS;
    uint64_t room = random & 1 ? SHARED : OWN, base = random & 1 ? 1 : 1 + SHARED + thread * OWN;
    *pages = 1 + (random >> 1) % LONGEST;
    *first = base + (random >> 8) % (room - *pages + 1);
}

static struct offheap_range range_of(uint32_t number) {
    uint64_t first = UNTOUCHED, pages = 1;
    if (number) place_of(number, &first, &pages);
    return (struct offheap_range){.start = first << 12,
                                  .end = (first + pages) << 12,
                                  .length_at_birth = pages << 12,
                                  .stack = number,
                                  .birth = ~number,
                                  .thread = (uint16_t)mixed(number + 1),
                                  .interval = (uint8_t)mixed(number + 2)};
}

/* A row or a part must be a piece of its insertion. */
static void check_row(const struct offheap_range *row) {
    struct offheap_range whole = range_of(row->stack);
    if (row->birth != whole.birth || row->length_at_birth != whole.length_at_birth || row->thread != whole.thread ||
        row->interval != whole.interval || memcmp(row->reserved, whole.reserved, sizeof row->reserved) ||
        row->start < whole.start || row->end > whole.end || row->start >= row->end || (row->start | row->end) & 4095)
        wrong("a row that nobody has written", row);
}

/* Removals take each page of an insertion once. */
static void check_part(const struct offheap_range *part, uint64_t first, uint64_t pages) {
    check_row(part);
    if (part->start < first << 12 || part->end > (first + pages) << 12) wrong("taken from beside the removal", part);
    struct insertion *its = &insertions[part->stack];
    uint64_t shift = (part->start - range_of(part->stack).start) >> 12, count = (part->end - part->start) >> 12;
    uint64_t bits = ((UINT64_C(1) << count) - 1) << shift;
    if (atomic_fetch_or_explicit(&its->taken, bits, memory_order_relaxed) & bits) wrong("taken twice", part);
}

static void *work(void *argument) {
    uint32_t thread = (uint32_t)(uintptr_t)argument;
    uint32_t model[PAGES] = {0}; /* the insertion that owns each of the thread's own pages */
    /* On a busy machine the reader may not run at all during ROUNDS rounds. */
    for (uint32_t round = 1; round < ROUNDS || !atomic_load(&seen) || !atomic_load(&moving); round++) {
        if (round == MOST_ROUNDS) {
            fprintf(stderr, "the reader has seen %ld rows, and %ld that moved\n", atomic_load(&seen),
                    atomic_load(&moving));
            exit(3);
        }
        uint32_t number = round * THREADS + thread;
        uint64_t first, pages;
        place_of(number, &first, &pages);
        for (uint64_t page = first; page < first + pages; page++) raise_to(&begun[page], draw());
        if (mixed(number + 3) % 3) {
            struct offheap_range range = range_of(number);
            /* The set never fills up; an insertion gives up only when a preempted thread holds the lock. */
            while (!ranges_insert(&range));
            atomic_store_explicit(&insertions[number].ended, draw(), memory_order_relaxed);
            for (uint64_t page = first; page < first + pages; page++) model[page] = number;
            continue;
        }
        struct ranges_taken taken = {.count = 0};
        while (!ranges_remove(first << 12, (first + pages) << 12, &taken));
        uint64_t now = draw();
        for (uint64_t page = first; page < first + pages; page++) raise_to(&emptied[page], now);
        uint32_t parts[PAGES] = {0};
        for (uint32_t i = 0; i < taken.count; i++) {
            check_part(&taken.part[i], first, pages);
            for (uint64_t page = taken.part[i].start >> 12; page < taken.part[i].end >> 12; page++)
                parts[page] = taken.part[i].stack;
        }
        if (first > SHARED && !taken.more && memcmp(parts + first, model + first, pages * sizeof *model)) {
            fprintf(stderr, "not what was there was taken of [%lu, %lu)\n", (unsigned long)first,
                    (unsigned long)(first + pages));
            exit(1);
        }
        memset(model + first, 0, pages * sizeof *model);
    }
    return NULL;
}

/* Checks rows that existed at the same moment. */
static void check_together(const struct offheap_range *row, bool *owned) {
    check_row(row);
    for (uint64_t page = row->start >> 12; page < row->end >> 12; page++) {
        if (owned[page]) wrong("two rows with one page", row);
        owned[page] = true;
    }
}

static struct offheap_range copies[2][CAPACITY];

/* Copies in the order of addresses, so `start` comes first. */
static void copy_here(struct offheap_range *copy) {
    for (size_t i = 0; i < BYTES / 8; i++)
        ((uint64_t *)copy)[i] = __atomic_load_n((const uint64_t *)rows + i, __ATOMIC_ACQUIRE);
}

static void *read_outside(void *unused) {
    for (long turn = 0; !atomic_load(&finished); turn++) {
        for (int copy = 0; copy < 2; copy++) {
            if (turn & 1) copy_here(copies[copy]);
            else if (pread(file, copies[copy], BYTES, 0) != (ssize_t)BYTES) exit(2);
        }
        bool owned[PAGES] = {false};
        long rest = 0, moved = 0;
        for (int i = 0; i < CAPACITY; i++) {
            if (!copies[0][i].start) continue;
            if (memcmp(&copies[0][i], &copies[1][i], sizeof copies[0][i])) {
                moved++;
                continue;
            }
            check_together(&copies[1][i], owned);
            rest++;
        }
        if (!owned[UNTOUCHED]) {
            fprintf(stderr, "the reader misses a row that nobody has touched\n");
            exit(1);
        }
        atomic_fetch_add_explicit(&seen, rest - 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&moving, moved, memory_order_relaxed);
    }
    return unused;
}

/* The owner of a page at the end must be an insertion that may be the last, and that no removal took the page from. */
static void check_end(void) {
    uint32_t owner[PAGES] = {0};
    bool owned[PAGES] = {false};
    for (int i = 0; i < CAPACITY; i++) {
        if (!rows[i].start) continue;
        check_together(&rows[i], owned);
        for (uint64_t page = rows[i].start >> 12; page < rows[i].end >> 12; page++) owner[page] = rows[i].stack;
    }
    for (uint64_t page = 1; page < UNTOUCHED; page++) {
        struct insertion *its = &insertions[owner[page]];
        uint64_t ended = owned[page] ? its->ended : emptied[page];
        bool taken = owned[page] && its->taken >> (page - (range_of(owner[page]).start >> 12)) & 1;
        if (ended >= begun[page] && !taken) continue;
        fprintf(stderr, "page %lu is of insertion %u, ended %lu, the last call began %lu%s\n", (unsigned long)page,
                owner[page], (unsigned long)ended, (unsigned long)begun[page], taken ? ", taken" : "");
        exit(1);
    }
}

int main(void) {
    file = (int)syscall(SYS_memfd_create, "rows", 0); /* glibc 2.17 has no wrapper */
    if (file < 0 || ftruncate(file, BYTES)) return 2;
    rows = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    size_t room = (size_t)(MOST_ROUNDS + 1) * THREADS * sizeof *insertions;
    insertions = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct offheap_range untouched = range_of(0);
    if (rows == MAP_FAILED || insertions == MAP_FAILED || !ranges_start(rows, CAPACITY) || !ranges_insert(&untouched))
        return 2;

    pthread_t threads[THREADS], reader;
    pthread_create(&reader, NULL, read_outside, NULL);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    atomic_store(&finished, true);
    pthread_join(reader, NULL);
    check_end();
    printf("%ld rows at rest, %ld moving\n", atomic_load(&seen), atomic_load(&moving));
    return 0;
}
