#include "fake_vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SEGMENT_LOG2 = 7,
    SEGMENTS = PAGE, /* one byte for each segment: one page */
    HEAP_BYTES = SEGMENTS << SEGMENT_LOG2,
    SOUND_BYTES = HEAP_BYTES / 2,
    TORN_BYTES = 2 * PAGE,
    ISLANDS = 8,
};

struct block {
    uint64_t segments;
    uint8_t used;
};
struct space {
    uintptr_t low, high;
};
struct heap {
    uintptr_t vtable;
    struct space memory, segments;
    int32_t segment_log2;
};
struct array {
    int32_t length;
    struct heap **data;
};
struct queue {
    uintptr_t vtable, buffer;
    uint32_t limit;
};

/* The second heap is in the middle of a growth: its memory is larger, its segment map is not yet. */
static struct heap heaps[2];
static struct heap *heap_pointers[2] = {&heaps[0], &heaps[1]};
static struct array heap_array = {2, heap_pointers};
static struct queue interpreter;
static const uintptr_t array_address = (uintptr_t)&heap_array, queue_address = (uintptr_t)&interpreter;

uintptr_t fake_call_stub, fake_interpreter, fake_interpreter_bytes = 16 * PAGE;
struct fake_nmethod *fake_nmethods[NMETHODS];

struct vm_code_layout fake_layout = {
    .heaps = &array_address,
    .interpreter = &queue_address,
    .call_stub_return = &fake_call_stub,
    .array_length = offsetof(struct array, length),
    .array_data = offsetof(struct array, data),
    .heap_memory = offsetof(struct heap, memory),
    .heap_segments = offsetof(struct heap, segments),
    .heap_segment_log2 = offsetof(struct heap, segment_log2),
    .space_low = offsetof(struct space, low),
    .space_high = offsetof(struct space, high),
    .block_bytes = sizeof(struct block),
    .block_used = offsetof(struct block, used),
    .queue_buffer = offsetof(struct queue, buffer),
    .queue_limit = offsetof(struct queue, limit),
    .blob_name = offsetof(struct fake_nmethod, name),
    .blob_frame_size = offsetof(struct fake_nmethod, frame_words),
    .nmethod_method = offsetof(struct fake_nmethod, method),
    .nmethod_compile_id = offsetof(struct fake_nmethod, compile_id),
    .nmethod_state = offsetof(struct fake_nmethod, state),
    .deopt_handlers = {offsetof(struct fake_nmethod, deopt_handlers[0]),
                       offsetof(struct fake_nmethod, deopt_handlers[1])},
    .wrapper_sp = 16,
    .wrapper_pc = 24,
    .wrapper_fp = 32,
    .method_const = offsetof(struct fake_method, constants),
    .const_bytes = offsetof(struct fake_code, bytecodes),
    .const_pool = offsetof(struct fake_code, pool),
    .const_number = offsetof(struct fake_code, number),
    .const_code_size = offsetof(struct fake_code, more_numbers[0]),
    .pool_class = offsetof(struct fake_pool, holder),
    .class_ids = offsetof(struct fake_class, ids),
    .wrapper_slot = -6,
    .sender_sp_slot = -1,
};

struct vm_scope_layout fake_scope_layout = {
    .code_begin = offsetof(struct fake_nmethod, code_begin),
    .pcs = offsetof(struct fake_nmethod, descs_at),
    .pcs_end = offsetof(struct fake_nmethod, descs_end),
    .data = offsetof(struct fake_nmethod, scopes),
    .metadata_offset = true,
    .metadata = offsetof(struct fake_nmethod, metadata_at),
    .orig_pc = offsetof(struct fake_nmethod, orig_pc_at),
    .desc_bytes = sizeof(struct fake_desc),
    .desc_pc = offsetof(struct fake_desc, pc),
    .desc_scope = offsetof(struct fake_desc, scope),
    .first_bci = -1,
};

static uint64_t state;
static struct {
    uintptr_t low, bytes;
} islands[ISLANDS];
static unsigned island_count;
static struct fake_class *classes[CLASSES];
static bool loaded[CLASSES], renewed[CLASSES];
static uintptr_t torn, names;
static const char *native_name;

uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

/* Reserves memory between two unreadable pages; only the first `open` bytes are readable. */
static uintptr_t reserve(size_t bytes, size_t open) {
    char *low = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED || (open && mprotect(low + PAGE, open, PROT_READ | PROT_WRITE) != 0)) {
        puts("no memory");
        exit(1);
    }
    return (uintptr_t)low + PAGE;
}

/* Reserves memory that torn pointers lead to.  The walk must not find a method of any call through them. */
static uintptr_t reserve_island(size_t bytes, size_t open) {
    islands[island_count].low = reserve(bytes, open);
    islands[island_count].bytes = open;
    return islands[island_count++].low;
}

uintptr_t fake_island(size_t bytes) { return reserve(bytes, bytes); }

static uintptr_t *ids_of(unsigned class) { return (uintptr_t *)((uintptr_t)classes[class] + PAGE) - 1 - METHODS_EACH; }

bool fake_loaded(unsigned class) { return loaded[class]; }
bool fake_renewed(unsigned class) { return renewed[class]; }
struct fake_method *fake_method(unsigned class, unsigned method) { return &classes[class]->methods[method]; }
uintptr_t fake_id(unsigned class, unsigned method) {
    return loaded[class] ? ids_of(class)[1 + METHODS_EACH - 1 - method] : 0;
}

static void load(unsigned class) {
    static uintptr_t next_id = UINT64_C(0x7e0000000000);
    struct fake_class *new = classes[class];
    mprotect(new, PAGE, PROT_READ | PROT_WRITE);
    new->ids = ids_of(class);
    new->pool.holder = new;
    new->ids[0] = METHODS_EACH;
    for (unsigned i = 0; i < METHODS_EACH; i++) {
        new->methods[i].constants = &new->codes[i];
        new->codes[i].pool = &new->pool;
        new->codes[i].number = (uint16_t)(METHODS_EACH - 1 - i);
        new->codes[i].more_numbers[0] = BYTECODES;
        new->ids[1 + i] = next_id += 16;
    }
    loaded[class] = true;
}

/* The VM unloads the code of a class before the class. */
static void use_code_of(unsigned class, bool used) {
    for (unsigned i = class; i < NMETHODS; i += CLASSES) fake_nmethods[i]->state = used ? 0 : 3;
}

void fake_vm_come_and_go(void) {
    unsigned class = 3 + 4 * (unsigned)draw(CLASSES / 4);
    use_code_of(class, !loaded[class]);
    if (!loaded[class]) {
        load(class);
        renewed[class] = true;
        return;
    }
    mprotect(classes[class], PAGE, PROT_NONE);
    loaded[class] = false;
}

uintptr_t fake_torn_pointer(void) {
    unsigned island = (unsigned)draw(island_count);
    switch (draw(16)) {
    case 0: return draw(3) ? 8 * draw(16) : 0;
    case 1: return draw(UINT64_MAX);
    case 2: return draw(UINT64_C(1) << 47);
    case 3: return islands[island].low - PAGE + draw(2 * PAGE);
    case 4: return islands[island].low - 1 - draw(16);
    case 5: return islands[island].low + islands[island].bytes - 1 - draw(64);
    case 6: return islands[island].low + islands[island].bytes - 8 * draw(16);
    case 7: return torn + TORN_BYTES - 8 * draw(8);
    case 8: return (uintptr_t)&classes[DEAD_CLASS]->codes[draw(METHODS_EACH)];
    case 9: return (uintptr_t)classes[DEAD_CLASS] + 8 * draw(sizeof(struct fake_class) / 8);
    case 10: return (uintptr_t)fake_method((unsigned)draw(CLASSES / 4) * 4 + 3, (unsigned)draw(METHODS_EACH));
    default: return torn + 8 * draw(TORN_BYTES / 8);
    }
}

uintptr_t fake_torn_pc(void) {
    const struct heap *heap = &heaps[draw(2)];
    switch (draw(8)) {
    case 0: return fake_call_stub;
    case 1: return fake_interpreter + draw(fake_interpreter_bytes);
    case 2: return heap->memory.high - 1 - draw(256);
    case 3: return heap->memory.low - 64 + draw(1024);
    case 4: return heap->memory.low - PAGE + draw(2 * HEAP_BYTES + 2 * PAGE);
    case 5: return (uintptr_t)fake_nmethods[draw(NMETHODS)] - 16 + draw(512);
    default: return heaps[0].memory.low + SOUND_BYTES + draw(SOUND_BYTES);
    }
}

static const char *torn_name(void) {
    static const char *const others[] = {"native nmetho", "nmethod ", "RuntimeStub", ""};
    switch (draw(8)) {
    case 0: return (const char *)fake_torn_pointer();
    case 1: return (const char *)names + PAGE - draw(16);
    case 2: return others[draw(4)];
    case 3: return native_name;
    default: return "nmethod";
    }
}

static int32_t torn_frame_words(void) {
    static const int32_t words[] = {0, 1, -1, INT32_MIN, INT32_MAX, 2, 0x20000002, 0x1fffffff, -2, 3};
    return words[draw(sizeof words / sizeof *words)];
}

/* Writes a half-made block, the rest of a freed block, or no block at all. */
static void tear_segment(const struct heap *heap, size_t segment, size_t told) {
    uintptr_t at = heap->memory.low + (segment << SEGMENT_LOG2), high = heap->memory.low + 2 * HEAP_BYTES;
    if (heap == &heaps[0]) high -= HEAP_BYTES;
    if (segment < told) {
        static const uint8_t backs[] = {0, 0, 0, 1, 2, 7, 254, 255};
        uint8_t *back = (uint8_t *)heap->segments.low + segment;
        *back = draw(4) ? backs[draw(8)] : (uint8_t)draw(256);
    }
    ((struct block *)at)->used = draw(8) != 0;
    struct fake_nmethod blob = {.name = torn_name(), .frame_words = torn_frame_words()};
    blob.compile_id = (int32_t)draw(1000);
    blob.state = draw(2) ? -1 : 3; /* not in use yet, or no longer */
    unsigned class = (unsigned)draw(CLASSES), method = (unsigned)draw(METHODS_EACH);
    blob.method = draw(2) ? fake_method(class, method) : (struct fake_method *)fake_torn_pointer();
    blob.deopt_handlers[0] = blob.deopt_handlers[1] = draw(UINT64_MAX);
    size_t bytes = offsetof(struct fake_nmethod, code), room = high - at - sizeof(struct block);
    memcpy((char *)at + sizeof(struct block), &blob, bytes < room ? bytes : room);
}

static void tear_heap(void) {
    if (draw(2)) tear_segment(&heaps[0], SEGMENTS / 2 + draw(SEGMENTS / 2), SEGMENTS);
    else tear_segment(&heaps[1], draw(2 * SEGMENTS), SEGMENTS);
}

void fake_vm_tear(void) {
    for (int i = 0; i < 16; i++) *(uintptr_t *)(torn + 8 * draw(TORN_BYTES / 8)) = fake_torn_pointer();
    for (int i = 0; i < 4; i++) tear_heap();
    tear_segment(&heaps[0], SEGMENTS - 1, SEGMENTS); /* its blob would end beyond the heap */
}

/* The scope of each record is inlined into that of the record before; the first is the nmethod's own.  All numbers are
 * below 192, so each takes one byte. */
static void make_records(struct fake_nmethod *new, unsigned number) {
    new->code_begin = (uintptr_t)new->code;
    new->scopes = (uintptr_t)new->scope_bytes;
    new->descs_at = offsetof(struct fake_nmethod, descs);
    new->descs_end = offsetof(struct fake_nmethod, scope_bytes);
    new->metadata_at = offsetof(struct fake_nmethod, metadata);
    new->orig_pc_at = 8;
    new->descs[0].pc = -1;
    new->descs[1 + RECORDS].pc = INT32_MAX;
    for (unsigned i = 0; i < RECORDS; i++) {
        unsigned scope = 8 + 8 * i;
        uint8_t zero = fake_scope_layout.no_zero_bytes;
        new->descs[1 + i] = (struct fake_desc){(int32_t)((i + 1) * RECORD_STEP), (int32_t)scope};
        new->scope_bytes[scope] = (uint8_t)((i ? scope - 8 : 0) + zero);
        new->scope_bytes[scope + 1] = (uint8_t)(1 + i + zero);
        new->scope_bytes[scope + 2] = (uint8_t)(i + 2 + zero); /* bci i + 1 */
        new->metadata[i] = fake_method(number % CLASSES, (number + i) % METHODS_EACH);
    }
}

static void make_nmethods(void) {
    uint8_t *back = (uint8_t *)heaps[0].segments.low;
    size_t segment = 0;
    memset(back, 0xff, SEGMENTS / 2);
    for (unsigned i = 0; i < NMETHODS; i++) {
        size_t segments = (sizeof(struct block) + sizeof **fake_nmethods + (1 << SEGMENT_LOG2) - 1) >> SEGMENT_LOG2;
        struct block *block = (struct block *)(heaps[0].memory.low + (segment << SEGMENT_LOG2));
        *block = (struct block){segments, 1};
        struct fake_nmethod *new = fake_nmethods[i] = (struct fake_nmethod *)((char *)block + sizeof *block);
        new->name = i % 7 ? "nmethod" : native_name;
        new->frame_words = 2 + (int32_t)draw(30);
        new->method = fake_method(i % CLASSES, i % METHODS_EACH);
        new->compile_id = 1000 + (int32_t)i;
        make_records(new, i);
        for (unsigned k = 0; k < 2; k++) {
            uintptr_t handler = (uintptr_t)new->code + 380 + k;
            /* Little endian: an offset is the lower half of the word. */
            new->deopt_handlers[k] = fake_layout.deopt_handler_offset ? handler - (uintptr_t)new : handler;
        }
        /* The segment map leads to the block's start in one step, or in several, as after a join of blocks. */
        for (size_t k = 0; k < segments; k++) back[segment + k] = (uint8_t)(draw(2) ? k : k != 0);
        segment += segments + draw(2);
    }
}

void fake_vm_begin(uint64_t seed) {
    state = seed * 2654435761u + 1;
    fake_layout.deopt_handler_offset = seed % 2 == 0;
    fake_scope_layout.no_zero_bytes = seed / 4 % 2;
    /* The walk compares the texts of other names until it knows both names; half the seeds have no native nmethod. */
    native_name = seed / 2 % 2 ? "native nmethod" : "nmethod";
    for (unsigned i = 0; i < CLASSES; i++) {
        classes[i] = (struct fake_class *)(i == DEAD_CLASS ? reserve_island : reserve)(PAGE, PAGE);
        load(i);
    }
    torn = reserve_island(TORN_BYTES, TORN_BYTES);
    names = reserve_island(PAGE, PAGE);
    memset((char *)names, 'x', PAGE);
    memcpy((char *)names + PAGE - 11, "native nmet", 11);
    for (unsigned i = 0; i < 2; i++) {
        size_t open = (i + 1) * (size_t)HEAP_BYTES;
        heaps[i].memory.low = reserve_island(4 * HEAP_BYTES, open);
        heaps[i].memory.high = heaps[i].memory.low + open;
        /* Whole pages: the first heap's segment map describes more than its memory. */
        size_t bytes = (2 - i) * (size_t)PAGE;
        heaps[i].segments.low = reserve_island(4 * PAGE, bytes);
        heaps[i].segments.high = heaps[i].segments.low + bytes;
        heaps[i].segment_log2 = SEGMENT_LOG2;
    }
    fake_interpreter = reserve(fake_interpreter_bytes, 0);
    interpreter = (struct queue){0, fake_interpreter, (uint32_t)fake_interpreter_bytes};
    fake_call_stub = reserve(PAGE, 0) + 40;
    make_nmethods();
    for (unsigned i = 0; i < TORN_BYTES / 8; i++) ((uintptr_t *)torn)[i] = fake_torn_pointer();
    for (size_t i = SEGMENTS / 2; i < SEGMENTS; i++) tear_segment(&heaps[0], i, SEGMENTS);
    for (size_t i = 0; i < 2 * SEGMENTS; i++) tear_segment(&heaps[1], i, SEGMENTS);
}
