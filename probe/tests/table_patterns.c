/* The live table, filled to 70 % with blocks that lie as allocators lay them: none may be refused, and a look-up
 * must stay near its bucket. */
#include <stdio.h>
#include <stdlib.h>

#include "table.h"

enum { CAPACITY = 1 << 16, BLOCKS = CAPACITY / 10 * 7 };

static uint64_t keys[CAPACITY];
static struct offheap_value values[CAPACITY];

static const void *block_at(size_t i, size_t stride, size_t arena) {
    /* glibc's arenas are aligned to 64 MiB, so blocks of different threads are alike in their lower bits. */
    size_t lane = arena ? i % 16 : 0, n = arena ? i / 16 : i;
    return (const void *)(0x7f0000000010 + lane * arena + n * stride);
}

static void fill(size_t stride, size_t arena) {
    for (size_t i = 0; i < CAPACITY; i++) keys[i] = 0;
    if (!table_start(keys, values, CAPACITY, false)) exit(2);
    for (size_t i = 0; i < BLOCKS; i++)
        if (!table_insert(block_at(i, stride, arena), (struct offheap_value){.block = i})) {
            printf("stride %zu, arena %zu: block %zu of %d was refused\n", stride, arena, i, BLOCKS);
            exit(1);
        }
    for (size_t i = 0; i < BLOCKS; i++) {
        struct offheap_value value;
        const void *block = block_at(i, stride, arena);
        if (table_lacks(block) || !table_remove(block, &value) || value.block != i) {
            printf("stride %zu, arena %zu: block %zu was lost\n", stride, arena, i);
            exit(1);
        }
    }
    for (size_t i = 0; i < 1 << TABLE_FILTER_BITS; i++)
        if (table_filter[i] != 0 && table_filter[i] != 255) exit(3);
}

int main(void) {
    static const size_t strides[] = {16,   24,   32,    48,    64,    80,      96,          128,         144,     272,    528,
                                     1040, 4096, 8208, 65536, 65552, 1 << 20, (1 << 20) + 4096, 2 << 20, 64 << 20};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        fill(strides[i], 0);
        if (strides[i] * (BLOCKS / 16 + 1) < 64 << 20) fill(strides[i], 64 << 20);
    }
    return 0;
}
