#include "stack_memo.h"

#include <stdatomic.h>
#include <stddef.h>

#include "modules.h"
#include "probe.h"
#include "stack_bounds.h"

/* Touched, and so in memory, as far as threads that record use it. */
static struct stack_memo memos[MEMO_LANES][MEMO_WAYS];

struct stack_memo *stack_memo(const struct unwind_registers *from) {
    int lane = probe_lane();
    if (lane < 0) return NULL;
    uint64_t hash = (from->sp ^ from->site * 31) * UINT64_C(0x9E3779B97F4A7C15);
    return &memos[lane][hash >> 60];
}

_Static_assert(MEMO_WAYS == 1 << 4, "the hash has 4 bits");

bool stack_memo_holds(const struct stack_memo *memo, const struct unwind_registers *from, enum offheap_hook hook,
                      enum offheap_stack_kind kind) {
    if (!memo->stack || memo->from.sp != from->sp || memo->from.pc != from->pc || memo->from.fp != from->fp ||
        memo->hook != hook || memo->kind != kind)
        return false;
    if (memo->trace.generation != atomic_load_explicit(&modules_generation, memory_order_acquire)) return false;
    /* A thread may have inherited the lane of one that had more stack below the same storage. */
    uintptr_t high;
    if (!stack_bounds(from->sp, &high)) return false;
    const struct unwind_read *read = memo->trace.reads, *end = read + memo->trace.count;
    for (; read < end; read++)
        if (*read->at != read->word) return false;
    return true;
}
