#include "store/section_sizes.h"

#include <string.h>

#include "platform/cgroup.h"

enum {
    STEP = 64 << 10, /* append-only sections begin with one step */
    LEAST_BLOCKS = 1 << 12,
    LEAST_STACKS = 1 << 12,
    LEAST_METHODS = 1 << 12,
    LEAST_RANGES = 1 << 11,
    SMALLEST = 2104 << 10,  /* bytes of the smallest tables, as PROBE_BYTES of admission.py */
    FOR_MORE = 8,           /* append-only sections may take this part of the bound beyond their first steps */
    BESIDE = 768 << 10,     /* page tables and what the JVM takes for its agent, 0.5 to 0.85 MiB measured */
    OWN_BYTES = 1200 << 10, /* filter, indexes, memos of a few stacks, HotSpot's ids of methods; test_admission.py */
};

bool shape_appends(enum offheap_section_id section) {
    switch (section) {
    case OFFHEAP_METHODS: /* small, so populated whole */
    case OFFHEAP_KEYS:
    case OFFHEAP_VALUES:
    case OFFHEAP_RANGES: return false;
    default: return true;
    }
}

static bool is_exact(const struct options *options) { return options->interval == 0; }

uint32_t shape_shards(const struct options *options) { return is_exact(options) ? 4 : 1; }

static uint64_t lesser(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t shape_allowance(const struct options *options, enum offheap_entry entry) {
    uint64_t bound = lesser(options->memory, options->room);
    struct cgroup_room room;
    if (options->force || !cgroup_read(&room)) return bound;
    bound = lesser(bound, room.left / 2);
    if (entry == OFFHEAP_ATTACH) return bound;
    uint64_t part = room.limit / 16;
    /* The smallest tables may take a whole sixteenth, else the probe would refuse limits below 46 MB. */
    return lesser(bound, part > SMALLEST + BESIDE ? part - BESIDE : lesser(part, SMALLEST));
}

/* Halves the capacity `times` times, but not below `least`. */
static uint64_t halved(uint64_t capacity, unsigned times, uint64_t least) {
    uint64_t half = capacity >> times;
    return half > least ? half : lesser(capacity, least);
}

static void choose(const struct options *options, unsigned times, struct shape *shapes) {
    bool exact = is_exact(options);
    uint64_t stacks = halved(options->stacks, times, LEAST_STACKS),
             blocks = halved(options->blocks, times, LEAST_BLOCKS);
    const struct shape chosen[OFFHEAP_SECTIONS] = {
        [OFFHEAP_STRINGS] = {exact ? 16u << 20 : 4u << 20, 1},
        [OFFHEAP_MODULES] = {4096, sizeof(struct offheap_module)},
        [OFFHEAP_METHODS] = {halved(exact ? 1u << 16 : 1u << 14, times, LEAST_METHODS), sizeof(struct offheap_method)},
        [OFFHEAP_LINES] = {exact ? 1u << 20 : 1u << 18, sizeof(struct offheap_line)},
        [OFFHEAP_THREADS] = {exact ? 16384 : 4096, sizeof(struct offheap_thread)},
        [OFFHEAP_FRAMES] = {stacks * 64, sizeof(uint64_t)},
        [OFFHEAP_STACKS] = {stacks, sizeof(struct offheap_stack)},
        [OFFHEAP_COUNTERS] = {stacks * shape_shards(options), sizeof(struct offheap_counters)},
        [OFFHEAP_KEYS] = {blocks, sizeof(uint64_t)},
        [OFFHEAP_VALUES] = {blocks, sizeof(struct offheap_value)},
        [OFFHEAP_RANGES] = {halved(exact ? 1u << 16 : 1u << 14, times, LEAST_RANGES), sizeof(struct offheap_range)},
        [OFFHEAP_PROPERTIES] = {256, sizeof(struct offheap_property)},
    };
    memcpy(shapes, chosen, sizeof chosen);
}

static uint64_t taken_at_start(const struct shape *shapes) {
    /* The private memory of the table and of the set of ranges grows with their sections. */
    uint64_t bytes =
        OFFHEAP_HEADER_BYTES + OWN_BYTES + shapes[OFFHEAP_KEYS].capacity / 8 + shapes[OFFHEAP_RANGES].capacity * 4;
    for (int i = 0; i < OFFHEAP_SECTIONS; i++)
        bytes += shape_appends((enum offheap_section_id)i) ? (uint64_t)STEP : shapes[i].capacity * shapes[i].row_bytes;
    return bytes;
}

bool shape_fit(const struct options *options, uint64_t bound, struct shape shapes[OFFHEAP_SECTIONS], uint64_t *taken,
               bool *smaller) {
    enum { TIMES = 24 }; /* from the most blocks that options allow down to the least */
    uint64_t before = *taken;
    for (unsigned times = 0; times < TIMES; times++) {
        choose(options, times, shapes);
        *taken = before + taken_at_start(shapes);
        *smaller = times > 0;
        /* A table that leaves no room for stacks would record blocks without stacks. */
        if (*taken <= bound - bound / FOR_MORE) return true;
    }
    return *taken <= bound;
}
