#include "sampling/stack_memo.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "guard/guard.h"
#include "jvm/java_frames.h"
#include "platform/compiler.h"
#include "store/memory_bound.h"
#include "store/modules.h"
#include "unwind/stack_bounds.h"

enum {
    LANES = 256,
    SET_BITS = 4,
    SET = 4, /* memos: only stacks that differ in their callers alone share a set */
    READS = 384,
    STORE = 32 << 10,
};

struct memo {
    uintptr_t pc, sp, fp, site;
    uint32_t stack; /* row in STACKS; 0: empty */
    uint32_t generation;
    uint64_t place; /* in the lane's store: the words that the walk read, then codes, then methods */
    uint16_t reads;
    uint8_t codes, methods, hook, kind;
    bool java;
};

/* The store is a ring: places only grow, and a new memo overwrites the place one store length back.  Only lanes of
 * threads that record take memory, since nobody touches the others. */
static struct lane {
    struct memo memos[1 << SET_BITS][SET];
    uint64_t next, end; /* the place to write at, and the end of all that was ever written */
    bool granted;
    struct java_trace java; /* of the draft */
    uint64_t frames[STACK_FRAMES];
    _Alignas(64) char store[STORE];
} lanes[LANES];

static const size_t longest =
    READS * sizeof(struct unwind_read) + (JAVA_CODES + JAVA_METHODS) * sizeof(struct java_check);
_Static_assert(sizeof(struct unwind_read) % _Alignof(struct java_check) == 0, "checks follow reads");

static _Atomic uint64_t granted; /* number of lanes with memory */

static struct lane *my_lane(void) {
    int number = guard_lane();
    if (number < 0) return NULL;
    struct lane *lane = &lanes[number];
    if (unlikely(!lane->granted)) {
        if (!memory_grant(sizeof *lane)) return NULL;
        lane->granted = true;
        atomic_fetch_add(&granted, 1);
    }
    return lane;
}

uint64_t stack_memo_bytes(void) { return atomic_load(&granted) * sizeof(struct lane); }

static unsigned set_of(const struct unwind_registers *from) {
    return (unsigned)((from->sp ^ from->site * 31) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - SET_BITS));
}

static bool is_there(const struct lane *lane, const struct memo *memo) {
    return memo->stack && memo->place + STORE >= lane->end;
}

static bool is_about(const struct memo *memo, const struct unwind_registers *from, enum offheap_hook hook,
                     enum offheap_stack_kind kind) {
    return memo->sp == from->sp && memo->site == from->site && memo->pc == from->pc && memo->fp == from->fp &&
           memo->hook == hook && memo->kind == kind;
}

static bool holds(const struct lane *lane, const struct memo *memo) {
    if (memo->generation != atomic_load_explicit(&modules_generation, memory_order_acquire)) return false;
    /* A thread may inherit the lane of a dead thread with more stack below the same thread-local storage. */
    uintptr_t high;
    if (!stack_bounds(memo->sp, &high)) return false;
    const struct unwind_read *reads = (const void *)&lane->store[memo->place % STORE], *end = reads + memo->reads;
    for (const struct unwind_read *read = reads; read < end; read++)
        if (*read->at != read->word) return false;
    if (!memo->java) return true;
    const struct java_check *codes = (const void *)end;
    return java_known() && java_walk_holds(codes, memo->codes, codes + memo->codes, memo->methods);
}

uint32_t stack_memo_find(const struct unwind_registers *from, enum offheap_hook hook, enum offheap_stack_kind kind,
                         bool *java) {
    const struct lane *lane = my_lane();
    if (!lane) return 0;
    const struct memo *set = lane->memos[set_of(from)];
    for (unsigned i = 0; i < SET; i++) {
        const struct memo *memo = &set[i];
        if (!is_about(memo, from, hook, kind) || !is_there(lane, memo) || !holds(lane, memo)) continue;
        *java = memo->java;
        return memo->stack;
    }
    return 0;
}

uint64_t *stack_memo_frames(void) {
    struct lane *lane = my_lane();
    return lane ? lane->frames : NULL;
}

bool stack_memo_begin(struct stack_memo_draft *draft, const struct unwind_registers *from) {
    struct lane *lane = my_lane();
    if (!lane) return false;
    if (lane->next % STORE + longest > STORE) lane->next += STORE - lane->next % STORE;
    if (lane->end < lane->next + longest) lane->end = lane->next + longest;
    draft->from = *from;
    draft->java = &lane->java;
    draft->words.room = READS;
    draft->words.reads = (void *)&lane->store[lane->next % STORE];
    return true;
}

void stack_memo_keep(const struct stack_memo_draft *draft, enum offheap_hook hook, enum offheap_stack_kind kind,
                     uint32_t stack, bool java) {
    struct lane *lane = my_lane();
    const struct unwind_registers *from = &draft->from;
    struct memo *set = lane->memos[set_of(from)], *memo = set;
    for (unsigned i = 1; i < SET; i++)
        if (set[i].place < memo->place) memo = &set[i]; /* the oldest */
    *memo = (struct memo){
        .pc = from->pc,
        .sp = from->sp,
        .fp = from->fp,
        .site = from->site,
        .stack = stack,
        .generation = draft->words.generation,
        .place = lane->next,
        .reads = (uint16_t)draft->words.count,
        .codes = (uint8_t)(java ? draft->java->codes : 0),
        .methods = (uint8_t)(java ? draft->java->methods : 0),
        .hook = (uint8_t)hook,
        .kind = (uint8_t)kind,
        .java = java,
    };
    struct java_check *checks = (void *)(draft->words.reads + memo->reads);
    memcpy(checks, draft->java->code, memo->codes * sizeof *checks);
    memcpy(checks + memo->codes, draft->java->method, memo->methods * sizeof *checks);
    lane->next += memo->reads * sizeof *draft->words.reads + (memo->codes + memo->methods) * sizeof *checks;
}
