#include "jvm/scopes.h"

#include <stddef.h>

#include "jvm/code_cache.h"

static const struct vm_scope_layout *layout; /* NULL: not known */

void scopes_begin(const struct vm_scope_layout *known) { layout = known; }

bool scopes_known(void) { return layout != NULL; }

static uintptr_t word_at(uintptr_t address) { return *(const uintptr_t *)address; }
static int32_t int_at(uintptr_t address) { return *(const int32_t *)address; }

/* The records of one nmethod. */
struct records {
    uintptr_t code, pcs, pcs_end, data, metadata;
};

static struct records records_of(uintptr_t nmethod) {
    uintptr_t base = layout->apart ? word_at(nmethod + layout->records) : nmethod;
    return (struct records){
        .code = layout->code_offset ? nmethod + (uintptr_t)(intptr_t)int_at(nmethod + layout->code_begin)
                                    : word_at(nmethod + layout->code_begin),
        .pcs = base + (uintptr_t)(intptr_t)int_at(nmethod + layout->pcs),
        .pcs_end = base + (uintptr_t)(intptr_t)int_at(nmethod + layout->pcs_end),
        .data = layout->apart ? base + (uintptr_t)(intptr_t)int_at(nmethod + layout->data)
                              : word_at(nmethod + layout->data),
        .metadata = layout->metadata_offset ? nmethod + (uintptr_t)(intptr_t)int_at(nmethod + layout->metadata)
                                            : word_at(nmethod + layout->metadata) +
                                                  (uintptr_t)(intptr_t)int_at(nmethod + layout->relocations),
    };
}

/* The first record whose pc is at least `pc`, 0 if there is none. */
static uintptr_t lower_bound(const struct records *records, int64_t pc) {
    if (records->pcs_end < records->pcs) return 0;
    size_t low = 0, high = (records->pcs_end - records->pcs) / layout->desc_bytes;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (int_at(records->pcs + middle * layout->desc_bytes + layout->desc_pc) < pc) low = middle + 1;
        else high = middle;
    }
    uintptr_t desc = records->pcs + low * layout->desc_bytes;
    return desc < records->pcs_end ? desc : 0;
}

/* HotSpot's UNSIGNED5: digits of six bits, the least first; a digit below `last` ends a number, and so does the
 * fifth. */
static uint32_t read_number(const uint8_t **at) {
    enum { DIGITS = 5, BITS = 6, HIGH = 1 << BITS };
    uint32_t zero = layout->no_zero_bytes, last = 256 - HIGH, sum = 0;
    for (unsigned i = 0; i < DIGITS; i++) {
        uint32_t byte = *(*at)++;
        sum += (byte - zero) << (BITS * i);
        if (byte < last) break;
    }
    return sum;
}

int scopes_at(uintptr_t nmethod, uintptr_t pc, enum scope_record record, struct scope scopes[SCOPES]) {
    if (!layout) return 0;
    struct records records = records_of(nmethod);
    int64_t offset = (int64_t)(pc - records.code);
    uintptr_t desc = lower_bound(&records, record == SCOPE_EXACT ? offset : offset + 1);
    if (!desc || (record == SCOPE_EXACT && int_at(desc + layout->desc_pc) != offset)) return 0;
    int count = 0;
    for (uint32_t scope = (uint32_t)int_at(desc + layout->desc_scope), before = UINT32_MAX; scope; count++) {
        /* HotSpot writes the scope of a caller before the scopes that it calls. */
        if (count == SCOPES || scope >= before) return 0;
        before = scope;
        const uint8_t *at = (const uint8_t *)(records.data + scope);
        scope = read_number(&at);
        uint32_t place = read_number(&at);
        jint bci = (jint)read_number(&at) + layout->first_bci;
        if (!place) return 0;
        scopes[count] = (struct scope){word_at(records.metadata + (place - 1) * sizeof(uintptr_t)), bci};
    }
    return count && scopes[count - 1].method == code_method(nmethod) ? count : 0;
}

bool scopes_orig_pc_at(uintptr_t nmethod, uintptr_t sp, uintptr_t *at) {
    if (!layout) return false;
    int32_t offset = int_at(nmethod + layout->orig_pc);
    *at = sp + (uintptr_t)(intptr_t)offset;
    return offset > 0 && (uint32_t)offset < code_frame_bytes(nmethod);
}
