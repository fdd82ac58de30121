/* Threads insert, replace and remove blocks of the live table; a reader copies it twice.  Every value is a function of
 * its key, so a torn or stray row shows.  Run under TSan, ASan, UBSan.
 * `table_stress exact`: as in an exact recording, whose filter lets everything through.
 * `table_stress grows`: adds a segment whenever the last one fills up. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/table.h"

enum { CAPACITY = 1 << 12, THREADS = 4, BLOCKS = 700, ROUNDS = 60000 };

static uint64_t keys[CAPACITY];
static struct offheap_value values[CAPACITY];
static atomic_bool finished;
static bool grows;
static _Atomic long torn, seen;

static struct offheap_value value_for(uint64_t key, uint32_t turn) {
    return (struct offheap_value){.block = key ^ turn, .stack = turn, .birth = ~turn};
}

/* 512 rows, then 512, 1024, 2048: each growth doubles the table. */
static void grow(void) {
    static atomic_bool busy;
    static size_t rows = CAPACITY / 8;
    if (atomic_exchange(&busy, true)) return;
    if (table_fills() && rows < CAPACITY) {
        if (!table_add(keys + rows, values + rows, rows)) exit(4);
        rows *= 2;
    }
    atomic_store(&busy, false);
}

static bool insert(const void *block, struct offheap_value value) {
    bool there = table_insert(block, value);
    /* Retries a few hundred times while another thread adds a segment. */
    for (int again = 0; grows && !there && again < 1000; again++) {
        grow();
        there = table_insert(block, value);
    }
    if (grows && table_counts(block)) grow();
    return there;
}

static void *work(void *argument) {
    uint64_t base = (uint64_t)(uintptr_t)argument << 32;
    bool there[BLOCKS] = {false};
    unsigned random = (unsigned)(base >> 32) + 1;
    /* On a busy machine the reader may not run at all during ROUNDS rounds. */
    for (int round = 0; round < ROUNDS || !atomic_load(&seen); round++) {
        random = random * 1103515245 + 12345;
        int i = (int)(random >> 8) % BLOCKS;
        uint64_t key = base + (uint64_t)i * 16 + 16;
        const void *block = (const void *)(uintptr_t)key;
        if (there[i] && random >> 31) {
            struct offheap_value value;
            if (table_lacks(block) || !table_remove(block, &value) || value.block != (key ^ value.stack)) {
                fprintf(stderr, "block %lx lost or wrong\n", (unsigned long)key);
                exit(1);
            }
            there[i] = false;
        } else {
            if (!insert(block, value_for(key, (uint32_t)round))) {
                fprintf(stderr, "full\n");
                exit(1);
            }
            there[i] = true;
        }
    }
    long left = 0;
    for (int i = 0; i < BLOCKS; i++) left += there[i];
    return (void *)left;
}

static uint64_t copied_keys[2][CAPACITY];
static uint64_t copied_values[2][CAPACITY * 2];

static void *read_outside(void *argument) {
    (void)argument;
    while (!atomic_load(&finished)) {
        for (int copy = 0; copy < 2; copy++)
            for (int i = 0; i < CAPACITY; i++) {
                copied_keys[copy][i] = __atomic_load_n(&keys[i], __ATOMIC_ACQUIRE);
                copied_values[copy][2 * i] = __atomic_load_n((uint64_t *)&values[i], __ATOMIC_RELAXED);
                copied_values[copy][2 * i + 1] = __atomic_load_n((uint64_t *)&values[i] + 1, __ATOMIC_RELAXED);
            }
        for (int i = 0; i < CAPACITY; i++) {
            uint64_t key = copied_keys[0][i];
            if (!key || key & 1 || key != copied_keys[1][i] || copied_values[0][2 * i] != copied_values[1][2 * i] ||
                copied_values[0][2 * i + 1] != copied_values[1][2 * i + 1])
                continue;
            uint32_t stack = (uint32_t)copied_values[0][2 * i + 1],
                     birth = (uint32_t)(copied_values[0][2 * i + 1] >> 32);
            atomic_fetch_add(&seen, 1);
            if (copied_values[0][2 * i] != (key ^ stack) || birth != ~stack) atomic_fetch_add(&torn, 1);
        }
    }
    return NULL;
}

int main(int count, char **words) {
    bool exact = count > 1 && strcmp(words[1], "sampled") != 0;
    grows = count > 1 && strcmp(words[1], "grows") == 0;
    if (!table_start(keys, values, grows ? CAPACITY / 8 : CAPACITY, CAPACITY, exact)) return 2;
    pthread_t threads[THREADS], reader;
    pthread_create(&reader, NULL, read_outside, NULL);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    long expected = 0;
    for (int i = 0; i < THREADS; i++) {
        void *left;
        pthread_join(threads[i], &left);
        expected += (long)left;
    }
    atomic_store(&finished, true);
    pthread_join(reader, NULL);
    long live = 0;
    for (int i = 0; i < CAPACITY; i++) live += keys[i] != 0;
    long cells = 0, full = 0;
    for (int i = 0; i < 1 << TABLE_FILTER_BITS; i++) cells += table_filter[i], full += table_filter[i] == UINT8_MAX;
    printf("live %ld expected %ld filter %ld seen %ld torn %ld\n", live, expected, cells, seen, torn);
    if (live != expected || torn || !seen) return 1;
    /* Cells of the exact filter must stay full: a cell that counts down once may hide a block later. */
    if (exact ? full != 1 << TABLE_FILTER_BITS : cells != live) return 1;

    /* A full table refuses, and keeps its rows. */
    long taken = 0;
    for (uint64_t key = 1 << 20; taken < CAPACITY * 2; key += 16, taken++)
        if (!table_insert((void *)(uintptr_t)key, value_for(key, 1))) break;
    printf("full after %ld more\n", taken);
    return taken + live > CAPACITY || taken + live < CAPACITY / 2;
}
