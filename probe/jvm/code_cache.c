#define _GNU_SOURCE
#include "jvm/code_cache.h"

#include <stdatomic.h>
#include <string.h>

#include "platform/system.h"
#include "unwind/stack_bounds.h"

enum { HEAPS = 8, HOPS = 4096, UNUSED_SEGMENT = 0xff };
#define STUB (UINT64_C(1) << 32) /* above all compile ids */

static const struct vm_code_layout *layout;
static struct {
    uintptr_t low;
    const volatile uintptr_t *high; /* a heap grows */
    const volatile uint8_t *segments;
    const volatile uintptr_t *segments_high; /* the segment map grows after the heap, if there is memory */
    unsigned segment_log2;
} heaps[HEAPS];
static int heap_count;
static uintptr_t code_offset; /* in a block, an nmethod's code lies behind all fields that this file reads */
static uintptr_t stub_offset; /* a stub's code lies behind the fields of a CodeBlob */
/* CodeBlob's name tells nmethods from all other code.  HotSpot has two literals for this name. */
static _Atomic uintptr_t nmethod_names[2];

static uintptr_t word_at(uintptr_t address) { return *(const uintptr_t *)address; }
static int32_t int_at(uintptr_t address) { return *(const int32_t *)address; }

static void lies_behind(uintptr_t *offset, size_t field, size_t bytes) {
    uintptr_t end = layout->block_bytes + field + bytes;
    if (*offset < end) *offset = end;
}

bool code_cache_find(const struct vm_code_layout *known) {
    layout = known;
    stub_offset = 0;
    lies_behind(&stub_offset, layout->blob_name, sizeof(uintptr_t));
    lies_behind(&stub_offset, layout->blob_frame_size, sizeof(int32_t));
    code_offset = stub_offset;
    lies_behind(&code_offset, layout->nmethod_method, sizeof(uintptr_t));
    lies_behind(&code_offset, layout->nmethod_compile_id, sizeof(int32_t));
    lies_behind(&code_offset, layout->nmethod_state, sizeof(int8_t));
    for (int i = 0; i < 2; i++) lies_behind(&code_offset, layout->deopt_handlers[i], sizeof(uintptr_t));
    heap_count = 0;
    uintptr_t array = *layout->heaps;
    if (!array) return false;
    int32_t length = int_at(array + layout->array_length);
    for (int32_t i = 0; i < length && heap_count < HEAPS; i++) {
        uintptr_t heap = word_at(word_at(array + layout->array_data) + 8 * (uintptr_t)i);
        uintptr_t memory = heap + layout->heap_memory, segments = heap + layout->heap_segments;
        /* JDK 11: a heap of code compiled ahead of time has no segments. */
        if (!word_at(segments + layout->space_low)) continue;
        heaps[heap_count].low = word_at(memory + layout->space_low);
        heaps[heap_count].high = (const volatile uintptr_t *)(memory + layout->space_high);
        heaps[heap_count].segments = (const volatile uint8_t *)word_at(segments + layout->space_low);
        heaps[heap_count].segments_high = (const volatile uintptr_t *)(segments + layout->space_high);
        heaps[heap_count].segment_log2 = (unsigned)int_at(heap + layout->heap_segment_log2);
        heap_count++;
    }
    return heap_count > 0;
}

/* HotSpot marks a block as used before it fills the block in, so the name may be any word.  When both names are known,
 * is_nmethod follows no other name. */
static __attribute__((noinline)) bool is_nmethod_name(uintptr_t name) {
    static const char names[2][16] = {"nmethod", "native nmethod"};
    char text[16];
    uintptr_t first = name & -(uintptr_t)8, last = (name + sizeof text - 1) & -(uintptr_t)8;
    if (!word_readable(first) || !word_readable(last) || !system_read(name, text, sizeof text)) return false;
    bool native = strncmp(text, names[1], sizeof text) == 0;
    if (!native && strncmp(text, names[0], sizeof text) != 0) return false;
    atomic_store_explicit(&nmethod_names[native], name, memory_order_relaxed);
    return true;
}

static bool is_nmethod(uintptr_t blob) {
    uintptr_t name = word_at(blob + layout->blob_name);
    uintptr_t known = atomic_load_explicit(&nmethod_names[0], memory_order_relaxed);
    uintptr_t native = atomic_load_explicit(&nmethod_names[1], memory_order_relaxed);
    if (name == known || name == native) return name != 0;
    return (!known || !native) && name && is_nmethod_name(name);
}

struct code code_at(uintptr_t pc) {
    for (int i = 0; i < heap_count; i++) {
        uintptr_t low = heaps[i].low;
        if (pc < low || pc >= *heaps[i].high) continue;
        /* The byte of a segment is the distance to the start of its block, or a part of that distance. */
        uintptr_t segment = (pc - low) >> heaps[i].segment_log2;
        if (segment >= *heaps[i].segments_high - (uintptr_t)heaps[i].segments) break;
        uint8_t back = heaps[i].segments[segment];
        if (back == UNUSED_SEGMENT) break;
        for (int hops = 0; back; back = heaps[i].segments[segment]) {
            if (back > segment || hops++ == HOPS) return (struct code){0};
            segment -= back;
        }
        uintptr_t block = low + (segment << heaps[i].segment_log2);
        /* Bytes that change at the same time, or a pc in no code, may lead to an address that is no block and has no
         * known end. */
        if (pc - block < stub_offset || !*(const volatile uint8_t *)(block + layout->block_used)) break;
        uintptr_t blob = block + layout->block_bytes;
        if (pc - block >= code_offset && is_nmethod(blob))
            return (struct code){blob, true, (uint32_t)int_at(blob + layout->nmethod_compile_id)};
        return (struct code){blob, false, STUB | code_frame_bytes(blob)};
    }
    return (struct code){0};
}

uint32_t code_frame_bytes(uintptr_t blob) {
    int32_t words = int_at(blob + layout->blob_frame_size);
    return words > 0 ? (uint32_t)words * 8 : 0;
}

bool code_alive(uintptr_t nmethod) {
    enum { IN_USE = 0, NOT_ENTRANT = 2 }; /* JDK 20 and later have 1 and no 2 */
    int8_t state = *(const volatile int8_t *)(nmethod + layout->nmethod_state);
    return state >= IN_USE && state <= NOT_ENTRANT;
}

bool code_is_native(uintptr_t nmethod) {
    return word_at(nmethod + layout->blob_name) == atomic_load_explicit(&nmethod_names[1], memory_order_relaxed);
}

uintptr_t code_method(uintptr_t nmethod) { return word_at(nmethod + layout->nmethod_method); }

bool code_deoptimizes(uintptr_t nmethod, uintptr_t pc) {
    for (int i = 0; i < 2; i++) {
        uintptr_t field = nmethod + layout->deopt_handlers[i];
        if (pc == (layout->deopt_handler_offset ? nmethod + (uintptr_t)(intptr_t)int_at(field) : word_at(field)))
            return true;
    }
    return false;
}
