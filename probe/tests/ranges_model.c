/* The range set against a model that knows every page. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/ranges.h"

enum { PAGES = 512, CAPACITY = 1024, ROUNDS = 200000 };

static struct offheap_range rows[CAPACITY];
static uint32_t model[PAGES]; /* the stack that owns each page, 0 none */

static uint64_t lengths[ROUNDS]; /* length of each round's whole range */

static unsigned state = 12345;
static unsigned next_random(void) { return (state = state * 1664525 + 1013904223) >> 8; }

static int compare(void) {
    static uint32_t seen[PAGES];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < CAPACITY; i++) {
        if (!rows[i].start) continue;
        for (uint64_t page = rows[i].start / 4096; page < rows[i].end / 4096; page++) {
            if (page >= PAGES || seen[page]) return 0; /* outside, or in two rows */
            seen[page] = rows[i].stack;
        }
    }
    return memcmp(seen, model, sizeof seen) == 0;
}

/* Is each owned page of [first, first + pages) in one part, with the stack of its owner? */
static int is_what_was_there(const struct ranges_taken *taken, uint64_t first, uint64_t pages) {
    static uint32_t parts[PAGES];
    memset(parts, 0, sizeof parts);
    for (uint32_t i = 0; i < taken->count; i++) {
        const struct offheap_range *part = &taken->part[i];
        if (part->length_at_birth != lengths[part->stack]) return 0;
        if (part->start >= part->end || part->start < first * 4096 || part->end > (first + pages) * 4096) return 0;
        for (uint64_t page = part->start / 4096; page < part->end / 4096; page++) parts[page] = part->stack;
    }
    return taken->more || memcmp(parts + first, model + first, pages * sizeof *model) == 0;
}

int main(void) {
    if (!ranges_start(rows, CAPACITY)) return 2;
    for (uint32_t round = 1; round < ROUNDS; round++) {
        uint64_t first = 1 + next_random() % (PAGES - 41), pages = 1 + next_random() % 40;
        if (next_random() % 3) {
            struct offheap_range range = {
                .start = first * 4096, .end = (first + pages) * 4096, .length_at_birth = pages * 4096, .stack = round};
            if (!ranges_insert(&range)) return 1;
            lengths[round] = range.length_at_birth;
            for (uint64_t i = 0; i < pages; i++) model[first + i] = round;
        } else {
            static struct ranges_taken taken;
            taken.count = taken.more = 0;
            if (!ranges_remove(first * 4096, (first + pages) * 4096, &taken)) return 1;
            if (!is_what_was_there(&taken, first, pages)) {
                printf("round %u: %u parts taken\n", round, taken.count);
                return 1;
            }
            memset(model + first, 0, pages * sizeof *model);
        }
        if (!compare()) {
            printf("round %u differs\n", round);
            return 1;
        }
    }
    printf("%d rounds equal\n", ROUNDS);

    /* A full set refuses, and keeps its rows. */
    struct offheap_range range = {.stack = 1};
    int taken = 0;
    for (uint64_t at = UINT64_C(1) << 30;; at += 8192, taken++) {
        range.start = at, range.end = at + 4096;
        if (!ranges_insert(&range)) break;
    }
    printf("full after %d\n", taken);
    return taken > CAPACITY || taken < CAPACITY / 4;
}
