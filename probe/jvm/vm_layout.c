#define _GNU_SOURCE
#include "jvm/vm_layout.h"

#include <string.h>

#include "platform/elf_image.h"

/* The tables describe their own rows too: every gHotSpotVMStructEntry*Offset is an exported uint64_t. */
struct struct_table {
    const char *rows;
    uint64_t stride, type, field, offset, address;
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
           read_number(image, "gHotSpotVMStructEntryOffsetOffset", &table->offset) &&
           read_number(image, "gHotSpotVMStructEntryAddressOffset", &table->address);
}

static const char *find_row(const struct struct_table *table, const char *type, const char *field) {
    for (const char *row = table->rows;; row += table->stride) {
        const char *row_type = *(const char *const *)(row + table->type);
        const char *row_field = *(const char *const *)(row + table->field);
        if (!row_type || !row_field) return NULL; /* the last row is all zero */
        if (strcmp(row_type, type) == 0 && strcmp(row_field, field) == 0) return row;
    }
}

static bool field_offset(const struct struct_table *table, const char *type, const char *field, size_t *offset) {
    const char *row = find_row(table, type, field);
    if (row) *offset = *(const uint64_t *)(row + table->offset);
    return row != NULL;
}

static bool static_field(const struct struct_table *table, const char *type, const char *field,
                         const uintptr_t **address) {
    const char *row = find_row(table, type, field);
    if (row) *address = *(const uintptr_t *const *)(row + table->address);
    return row && *address;
}

/* Returns the address of the number in a row {name, number} of gHotSpotVMTypes or gHotSpotVMIntConstants. */
static const void *number_of(const struct link_map *image, const char *const symbols[4], const char *name) {
    const char *const *rows = elf_symbol(image, symbols[0]);
    uint64_t stride, name_offset, number_offset;
    if (!rows || !*rows || !read_number(image, symbols[1], &stride) || !stride ||
        !read_number(image, symbols[2], &name_offset) || !read_number(image, symbols[3], &number_offset))
        return NULL;
    for (const char *row = *rows;; row += stride) {
        const char *row_name = *(const char *const *)(row + name_offset);
        if (!row_name) return NULL;
        if (strcmp(row_name, name) == 0) return row + number_offset;
    }
}

static bool type_size(const struct link_map *image, const char *type, size_t *size) {
    static const char *const symbols[] = {"gHotSpotVMTypes", "gHotSpotVMTypeEntryArrayStride",
                                          "gHotSpotVMTypeEntryTypeNameOffset", "gHotSpotVMTypeEntrySizeOffset"};
    const uint64_t *number = number_of(image, symbols, type);
    if (number) *size = *number;
    return number != NULL;
}

static bool int_constant(const struct link_map *image, const char *name, int *value) {
    static const char *const symbols[] = {"gHotSpotVMIntConstants", "gHotSpotVMIntConstantEntryArrayStride",
                                          "gHotSpotVMIntConstantEntryNameOffset",
                                          "gHotSpotVMIntConstantEntryValueOffset"};
    const int32_t *number = number_of(image, symbols, name);
    if (number) *value = *number;
    return number != NULL;
}

const void *vm_flag(const struct link_map *libjvm, const char *name) {
    struct struct_table table;
    const uintptr_t *flags, *count;
    size_t name_at, value_at, stride;
    if (!find_table(libjvm, &table) || !static_field(&table, "JVMFlag", "flags", &flags) ||
        !static_field(&table, "JVMFlag", "numFlags", &count) || !field_offset(&table, "JVMFlag", "_name", &name_at) ||
        !field_offset(&table, "JVMFlag", "_addr", &value_at) || !type_size(libjvm, "JVMFlag", &stride))
        return NULL;
    const char *flag = (const char *)*flags;
    for (size_t i = 0; i < *count; i++, flag += stride) {
        const char *its = *(const char *const *)(flag + name_at);
        if (its && strcmp(its, name) == 0) return *(const void *const *)(flag + value_at);
    }
    return NULL;
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

/* From JDK 23 on nmethod has the fields of CompiledMethod; from JDK 26 on one handler replaces the two. */
static bool nmethod_layout(const struct struct_table *table, struct vm_code_layout *layout) {
    size_t *handlers = layout->deopt_handlers;
    bool one = field_offset(table, "nmethod", "_deopt_handler_entry_offset", &handlers[0]);
    if (one) handlers[1] = handlers[0];
    layout->deopt_handler_offset = one || (field_offset(table, "nmethod", "_deopt_handler_offset", &handlers[0]) &&
                                           field_offset(table, "nmethod", "_deopt_mh_handler_offset", &handlers[1]));
    const char *type = layout->deopt_handler_offset ? "nmethod" : "CompiledMethod";
    return field_offset(table, type, "_method", &layout->nmethod_method) &&
           field_offset(table, "nmethod", "_compile_id", &layout->nmethod_compile_id) &&
           field_offset(table, "nmethod", "_state", &layout->nmethod_state) &&
           (layout->deopt_handler_offset || (field_offset(table, type, "_deopt_handler_begin", &handlers[0]) &&
                                             field_offset(table, type, "_deopt_mh_handler_begin", &handlers[1])));
}

bool vm_code_layout_read(const struct link_map *libjvm, struct vm_code_layout *layout) {
    struct struct_table table;
    size_t anchor;
    if (!find_table(libjvm, &table) || !nmethod_layout(&table, layout) ||
        !static_field(&table, "CodeCache", "_heaps", &layout->heaps) ||
        !static_field(&table, "AbstractInterpreter", "_code", &layout->interpreter) ||
        !static_field(&table, "StubRoutines", "_call_stub_return_address", &layout->call_stub_return) ||
        !(field_offset(&table, "GrowableArrayBase", "_len", &layout->array_length) ||
          field_offset(&table, "GenericGrowableArray", "_len", &layout->array_length)) ||
        !field_offset(&table, "GrowableArray<int>", "_data", &layout->array_data) ||
        !field_offset(&table, "CodeHeap", "_memory", &layout->heap_memory) ||
        !field_offset(&table, "CodeHeap", "_segmap", &layout->heap_segments) ||
        !field_offset(&table, "CodeHeap", "_log2_segment_size", &layout->heap_segment_log2) ||
        !field_offset(&table, "VirtualSpace", "_low", &layout->space_low) ||
        !field_offset(&table, "VirtualSpace", "_high", &layout->space_high) ||
        !type_size(libjvm, "HeapBlock", &layout->block_bytes) ||
        !field_offset(&table, "HeapBlock::Header", "_used", &layout->block_used) ||
        !field_offset(&table, "StubQueue", "_stub_buffer", &layout->queue_buffer) ||
        !field_offset(&table, "StubQueue", "_buffer_limit", &layout->queue_limit) ||
        !field_offset(&table, "CodeBlob", "_name", &layout->blob_name) ||
        !field_offset(&table, "CodeBlob", "_frame_size", &layout->blob_frame_size) ||
        !field_offset(&table, "JavaCallWrapper", "_anchor", &anchor) ||
        !field_offset(&table, "JavaFrameAnchor", "_last_Java_sp", &layout->wrapper_sp) ||
        !field_offset(&table, "JavaFrameAnchor", "_last_Java_pc", &layout->wrapper_pc) ||
        !field_offset(&table, "Method", "_constMethod", &layout->method_const) ||
        !type_size(libjvm, "ConstMethod", &layout->const_bytes) ||
        !field_offset(&table, "ConstMethod", "_constants", &layout->const_pool) ||
        !field_offset(&table, "ConstMethod", "_method_idnum", &layout->const_number) ||
        !field_offset(&table, "ConstMethod", "_code_size", &layout->const_code_size) ||
        !field_offset(&table, "ConstantPool", "_pool_holder", &layout->pool_class) ||
        !field_offset(&table, "InstanceKlass", "_methods_jmethod_ids", &layout->class_ids) ||
        !int_constant(libjvm, "frame::entry_frame_call_wrapper_offset", &layout->wrapper_slot) ||
        !int_constant(libjvm, "frame::interpreter_frame_sender_sp_offset", &layout->sender_sp_slot))
        return false;
#if defined(__x86_64__) || defined(__aarch64__)
    if (!field_offset(&table, "JavaFrameAnchor", "_last_Java_fp", &layout->wrapper_fp)) return false;
#endif
    layout->wrapper_sp += anchor;
    layout->wrapper_pc += anchor;
    layout->wrapper_fp += anchor;
    return true;
}

bool vm_scope_layout_read(const struct link_map *libjvm, struct vm_scope_layout *layout) {
    struct struct_table table;
    const uintptr_t *version;
    if (!find_table(libjvm, &table) || !static_field(&table, "Abstract_VM_Version", "_vm_major_version", &version) ||
        !type_size(libjvm, "PcDesc", &layout->desc_bytes) ||
        !field_offset(&table, "PcDesc", "_pc_offset", &layout->desc_pc) ||
        !field_offset(&table, "PcDesc", "_scope_decode_offset", &layout->desc_scope) ||
        !field_offset(&table, "nmethod", "_orig_pc_offset", &layout->orig_pc) ||
        !field_offset(&table, "nmethod", "_scopes_pcs_offset", &layout->pcs) ||
        !int_constant(libjvm, "InvocationEntryBci", &layout->first_bci))
        return false;
    layout->no_zero_bytes = *(const int32_t *)version >= 20;
    layout->code_offset = field_offset(&table, "CodeBlob", "_code_offset", &layout->code_begin);
    if (!layout->code_offset && !field_offset(&table, "CodeBlob", "_code_begin", &layout->code_begin)) return false;
    layout->apart = field_offset(&table, "nmethod", "_immutable_data", &layout->records);
    layout->metadata_offset = field_offset(&table, "nmethod", "_metadata_offset", &layout->metadata);
    if (layout->apart) {
        if (!field_offset(&table, "nmethod", "_scopes_data_offset", &layout->data)) return false;
        layout->pcs_end = layout->data; /* the data follows the pcs */
    } else if (!field_offset(&table, "CompiledMethod", "_scopes_data_begin", &layout->data) ||
               !field_offset(&table, "nmethod", "_dependencies_offset", &layout->pcs_end)) {
        return false;
    }
    /* JDK 23 and 24 have a short _metadata_offset, counted from places that this file does not know. */
    return layout->metadata_offset ? !layout->apart
                                   : field_offset(&table, "CodeBlob", "_mutable_data", &layout->metadata) &&
                                         field_offset(&table, "CodeBlob", "_relocation_size", &layout->relocations);
}
