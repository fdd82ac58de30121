#define _GNU_SOURCE
#include "jvm/compare_walks.h"

#include <string.h>

#include "jvm/java_stack.h"
#include "platform/system.h"
#include "store/live_file.h"

enum { FRAMES = 256 };

static void count(enum compared what, uint64_t amount) {
    uint64_t *counts = live->reserved + sizeof live->reserved / sizeof *live->reserved - COMPARED_COUNT;
    __atomic_fetch_add(&counts[what], amount, __ATOMIC_RELAXED);
}

static bool same(const struct call_frame *one, const struct call_frame *other, jint frames) {
    for (jint i = 0; i < frames; i++)
        if (one[i].method != other[i].method || one[i].bci != other[i].bci) return false;
    return true;
}

void walks_compare(compared_walk *async, void *context, const struct unwind_registers *at) {
    struct call_frame theirs[FRAMES], ours[FRAMES];
    bool whole = false;
    uint64_t start = system_monotonic_ns();
    jint found = async(theirs, FRAMES, context);
    uint64_t middle = system_monotonic_ns();
    jint own = java_stack(at, ours, FRAMES, &whole);
    uint64_t end = system_monotonic_ns();
    if (!whole && own < FRAMES) own = 0;
    count(COMPARED_WALKS, 1);
    count(COMPARED_ASYNC_NS, middle - start);
    count(COMPARED_OWN_NS, end - middle);
    if (found > 0) count(COMPARED_ASYNC, 1);
    if (own > 0) count(COMPARED_OWN, 1);
    if (found <= 0 || own <= 0) return;
    count(COMPARED_BOTH, 1);
    if (found == own && same(theirs, ours, own)) count(COMPARED_SAME, 1);
    java_stack_correct(at, theirs, &found, FRAMES);
    if (found == own && same(theirs, ours, own)) count(COMPARED_CORRECTED, 1);
    else if (found < own && same(theirs, ours, found)) count(COMPARED_CUT, 1);
}
