#define _GNU_SOURCE
#include "vm_layout.h"

#include <string.h>

#include "elf_image.h"

/* The tables describe their own rows too: every gHotSpotVMStructEntry*Offset is an exported uint64_t. */
struct struct_table {
    const char *rows;
    uint64_t stride, type, field, offset;
};

static bool read_number(const struct link_map *image, const char *symbol, uint64_t *number) {
    const uint64_t *address = elf_symbol(image, symbol);
    if (address) *number = *address;
    return address != NULL;
}

static bool find_table(const struct link_map *image, struct struct_table *table) {
    const char *const *rows = elf_symbol(image, "gHotSpotVMStructs");
    if (!rows || !*rows) return false;
    table->rows = *rows;
    return read_number(image, "gHotSpotVMStructEntryArrayStride", &table->stride) && table->stride > 0 &&
           read_number(image, "gHotSpotVMStructEntryTypeNameOffset", &table->type) &&
           read_number(image, "gHotSpotVMStructEntryFieldNameOffset", &table->field) &&
           read_number(image, "gHotSpotVMStructEntryOffsetOffset", &table->offset);
}

static bool field_offset(const struct struct_table *table, const char *type, const char *field, size_t *offset) {
    for (const char *row = table->rows;; row += table->stride) {
        const char *row_type = *(const char *const *)(row + table->type);
        const char *row_field = *(const char *const *)(row + table->field);
        if (!row_type || !row_field) return false; /* the last row is all zero */
        if (strcmp(row_type, type) != 0 || strcmp(row_field, field) != 0) continue;
        *offset = *(const uint64_t *)(row + table->offset);
        return true;
    }
}

bool vm_layout_read(const struct link_map *libjvm, struct vm_layout *layout) {
    struct struct_table table;
    size_t anchor;
    if (!find_table(libjvm, &table) || !field_offset(&table, "JavaThread", "_anchor", &anchor) ||
        !field_offset(&table, "JavaThread", "_thread_state", &layout->thread_state) ||
        !field_offset(&table, "JavaFrameAnchor", "_last_Java_sp", &layout->last_java_sp) ||
        !field_offset(&table, "JavaFrameAnchor", "_last_Java_pc", &layout->last_java_pc))
        return false;
#if defined(__x86_64__) || defined(__aarch64__)
    if (!field_offset(&table, "JavaFrameAnchor", "_last_Java_fp", &layout->last_java_fp)) return false;
#endif
    layout->last_java_sp += anchor;
    layout->last_java_pc += anchor;
    layout->last_java_fp += anchor;
    return true;
}
