/* Fills the live table to 70 % with addresses as allocators return them: it must refuse none, and find each near its
 * bucket.  `table_patterns exact`: a table with the size and layout of an exact recording's. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "store/table.h"

enum { SAMPLED = 1 << 16, EXACT = 1 << 21 /* see options.c */ };

static bool exact;
static size_t capacity, blocks;
static uint64_t *keys;
static struct offheap_value *values;

static const void *block_at(size_t i, size_t stride, size_t arena) {
    /* glibc aligns arenas to 64 MiB, so blocks of different threads have equal lower bits. */
    size_t lane = arena ? i % 16 : 0, n = arena ? i / 16 : i;
    return (const void *)(0x7f0000000010 + lane * arena + n * stride);
}

static void fill(size_t stride, size_t arena) {
    memset(keys, 0, capacity * sizeof *keys);
    if (!table_start(keys, values, capacity, capacity, exact)) exit(2);
    for (size_t i = 0; i < blocks; i++)
        if (!table_insert(block_at(i, stride, arena), (struct offheap_value){.block = i})) {
            printf("stride %zu, arena %zu: block %zu of %zu was refused\n", stride, arena, i, blocks);
            exit(1);
        }
    for (size_t i = 0; i < blocks; i++) {
        struct offheap_value value;
        const void *block = block_at(i, stride, arena);
        if (table_lacks(block) || !table_remove(block, &value) || value.block != i) {
            printf("stride %zu, arena %zu: block %zu was lost\n", stride, arena, i);
            exit(1);
        }
    }
    for (size_t i = 0; i < 1 << TABLE_FILTER_BITS; i++)
        if (table_filter[i] != 255 && (exact || table_filter[i] != 0)) exit(3);
}

int main(int count, char **words) {
    static const size_t strides[] = {16,      24,      32,   48,   64,   80,    96,    128,     144,
                                     272,     528,     1040, 4096, 8208, 65536, 65552, 1 << 20, (1 << 20) + 4096,
                                     2 << 20, 64 << 20};
    exact = count > 1 && strcmp(words[1], "exact") == 0;
    capacity = exact ? EXACT : SAMPLED;
    blocks = capacity / 10 * 7;
    /* live_file.c puts the two sections one behind the other. */
    size_t bytes = capacity * (sizeof *keys + sizeof *values);
    keys = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (keys == MAP_FAILED) return 2;
    values = (struct offheap_value *)(keys + capacity);
    if (exact) { /* only two patterns: 1.5 million blocks take long */
        fill(48, 64 << 20);
        fill(8208, 0);
        return 0;
    }
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        fill(strides[i], 0);
        if (strides[i] * (blocks / 16 + 1) < 64 << 20) fill(strides[i], 64 << 20);
    }
    return 0;
}
