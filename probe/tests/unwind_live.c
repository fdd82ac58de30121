/* live_file.h and strings.h for programs that test native frames alone: MODULES and STRINGS in plain memory. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>

#include "store/live_file.h"
#include "store/strings.h"

enum { MODULE_ROWS = 4096, STRING_BYTES = 1 << 20 };

static _Alignas(4096) struct {
    struct offheap_header header;
    struct offheap_module modules[MODULE_ROWS];
    char strings[STRING_BYTES];
} file;

struct offheap_header *live;
static _Atomic uint32_t string_end = 1;
static _Atomic uint32_t tick = 1;

__attribute__((constructor)) static void make(void) {
    file.header.sections[OFFHEAP_MODULES] =
        (struct offheap_section){.offset = sizeof file.header, .capacity = MODULE_ROWS, .row_bytes = 80};
    file.header.sections[OFFHEAP_STRINGS] = (struct offheap_section){
        .offset = sizeof file.header + sizeof file.modules, .capacity = STRING_BYTES, .row_bytes = 1};
    live = &file.header;
}

uint32_t live_string(const char *text, size_t length) {
    uint32_t at = atomic_fetch_add(&string_end, (uint32_t)length + 1);
    if (at + length >= STRING_BYTES) return 0;
    memcpy(file.strings + at, text, length);
    return at;
}

int64_t live_reserve(enum offheap_section_id section, uint64_t rows) {
    uint64_t row = __atomic_fetch_add(&live->sections[section].used, rows, __ATOMIC_SEQ_CST);
    return row + rows <= live->sections[section].capacity ? (int64_t)row : -1;
}

void live_lose(enum offheap_loss loss) { __atomic_fetch_add(&live->losses[loss], 1, __ATOMIC_RELAXED); }
uint32_t live_tick(void) { return atomic_fetch_add(&tick, 1); }
