/* For a build of benchmarks/accuracy/java_frames.py, which compares and times AsyncGetCallTrace and the probe's own
 * walk at the same place.  tests/compare_walks.c is a part of that build. */
#ifndef OFFHEAP_COMPARE_WALKS_H
#define OFFHEAP_COMPARE_WALKS_H

#include "jvm/java_walk.h"

/* The last words of header.reserved, in this order. */
enum compared {
    COMPARED_WALKS,
    COMPARED_ASYNC, /* AsyncGetCallTrace has frames */
    COMPARED_OWN,   /* the own walk has the whole stack */
    COMPARED_BOTH,
    COMPARED_SAME,      /* both: the same methods and bytecodes */
    COMPARED_CORRECTED, /* both: the same after the correction of the innermost frame */
    COMPARED_CUT,       /* both: AsyncGetCallTrace's frames end early, and are the same up to there */
    COMPARED_ASYNC_NS,
    COMPARED_OWN_NS,
    COMPARED_COUNT
};

typedef jint compared_walk(struct call_frame *calls, jint room, void *context);

/* Does both walks at `at` and counts the results.  `async`: AsyncGetCallTrace for `context`. */
void walks_compare(compared_walk *async, void *context, const struct unwind_registers *at);

#endif
