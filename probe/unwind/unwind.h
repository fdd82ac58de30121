/* Native call stacks by .eh_frame, from inside a hook, without locks or allocation. */
#ifndef OFFHEAP_UNWIND_H
#define OFFHEAP_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/registers.h"

/* A word of the stack that a walk has read; see unwind_traced(). */
struct unwind_read {
    const uintptr_t *at;
    uintptr_t word;
};
struct unwind_trace {
    uint32_t generation; /* modules_generation as the walk began */
    uint32_t room;
    uint32_t count; /* room + 1: the walk read more, or needed more than packed rules */
    struct unwind_read *reads;
    const uintptr_t *fp; /* where the walk read the fp that it ended with, unless that is in `reads` */
};

static inline void unwind_write_down(struct unwind_trace *trace, const uintptr_t *at) {
    if (trace->count < trace->room) trace->reads[trace->count++] = (struct unwind_read){at, *at};
    else trace->count = trace->room + 1;
}

enum unwind_end {
    UNWIND_ROOT,      /* the thread's first frame */
    UNWIND_NO_MODULE, /* registers->pc is in no module: JIT code, the interpreter, a stub */
    UNWIND_TRUNCATED, /* max frames */
    UNWIND_LOST,      /* no rule, or a stack that makes no sense */
};

/*
 * Walks outward from `registers` and writes encoded frames (recording.h), innermost first.  The first frame is
 * registers->pc itself, taken as a return address; frames of our own library at the inner end are walked but not
 * written.  A pc that a signal interrupted is written as pc + 1, so that every native frame is looked up at address -
 * 1.  `registers` is left at the frame where the walk ended.  For UNWIND_NO_MODULE that frame is not written; its pc,
 * sp and fp are those to hand to AsyncGetCallTrace.  Only the thread's own stack is walked: on a signal's alternate
 * stack, or a coroutine's, no frame is written and the end is UNWIND_LOST.
 *
 * Signal-safe; keeps errno; takes about 1 KiB of stack, 3 KiB when it meets a rule for the first time, 5 KiB when it
 * meets a module.  Returns the number of frames written.
 */
size_t unwind(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end);

/* The same, and writes down every word that it read.  A walk by the same thread, in the same generation, from the
 * same pc, sp and fp, finds the same frames if it reads the same words. */
size_t unwind_traced(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end,
                     struct unwind_trace *trace);

#endif
