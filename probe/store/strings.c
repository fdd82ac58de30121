#define _GNU_SOURCE
#include "store/strings.h"

#include <stdatomic.h>
#include <string.h>

#include "platform/system.h"
#include "recording.h"
#include "store/live_file.h"

enum { SLOTS_EXACT = 1 << 18, SLOTS_SAMPLED = 1 << 16 };

static _Atomic uint32_t *offsets; /* by hash: offset of the string, 0 free */
static uint32_t slots;

bool strings_start(bool exact) {
    slots = exact ? SLOTS_EXACT : SLOTS_SAMPLED;
    if (!offsets) offsets = system_pages(SLOTS_EXACT * sizeof *offsets);
    else memset((void *)offsets, 0, SLOTS_EXACT * sizeof *offsets);
    return offsets != NULL;
}

uint32_t live_string(const char *text, size_t length) {
    if (length == 0) return 0;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    const char *strings = LIVE_ROWS(char, OFFHEAP_STRINGS);
    uint64_t capacity = live->sections[OFFHEAP_STRINGS].capacity;
    uint32_t mask = slots - 1;
    int64_t mine = -1;
    for (uint32_t probe = 0; probe < 64; probe++) {
        _Atomic uint32_t *slot = &offsets[((uint32_t)(hash >> 16) + probe) & mask];
        uint32_t offset = atomic_load_explicit(slot, memory_order_acquire);
        if (offset == 0) {
            if (mine < 0) {
                mine = live_reserve(OFFHEAP_STRINGS, length + 1);
                if (mine < 0) break;
                memcpy((char *)strings + mine, text, length);
                ((char *)strings)[mine + (int64_t)length] = 0;
            }
            if (atomic_compare_exchange_strong_explicit(slot, &offset, (uint32_t)mine, memory_order_release,
                                                        memory_order_acquire))
                return (uint32_t)mine;
        }
        if (offset + length < capacity && memcmp(strings + offset, text, length) == 0 && strings[offset + length] == 0)
            return offset;
    }
    if (mine >= 0) return (uint32_t)mine; /* a full index costs a duplicate, not the name */
    mine = live_reserve(OFFHEAP_STRINGS, length + 1);
    if (mine < 0) {
        live_lose(OFFHEAP_LOST_STRINGS);
        return 0;
    }
    memcpy((char *)strings + mine, text, length);
    ((char *)strings)[mine + (int64_t)length] = 0;
    return (uint32_t)mine;
}

void live_property(const char *key, const char *value) {
    if (!live || !value) return;
    uint32_t key_offset = live_string(key, strlen(key)), value_offset = live_string(value, strlen(value));
    struct offheap_property *rows = LIVE_ROWS(struct offheap_property, OFFHEAP_PROPERTIES);
    uint64_t used = __atomic_load_n(&live->sections[OFFHEAP_PROPERTIES].used, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < used; i++) {
        if (rows[i].key != key_offset) continue;
        __atomic_store_n(&rows[i].value, value_offset, __ATOMIC_RELEASE);
        return;
    }
    int64_t row = key_offset ? live_reserve(OFFHEAP_PROPERTIES, 1) : -1;
    if (row < 0) return;
    rows[row].value = value_offset;
    __atomic_store_n(&rows[row].key, key_offset, __ATOMIC_RELEASE);
}
