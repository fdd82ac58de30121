/* Native call stacks by .eh_frame, from inside a hook, without locks or allocation. */
#ifndef OFFHEAP_UNWIND_H
#define OFFHEAP_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/registers.h"

/* What a walk read of the stack; see unwind_traced(). */
struct unwind_read {
    const uintptr_t *at;
    uintptr_t word;
};
struct unwind_trace {
    uint32_t generation; /* modules_generation as the walk began */
    uint32_t room;
    uint32_t count; /* room + 1: the walk read more, or needed more than packed rules */
    struct unwind_read *reads;
    const uintptr_t *fp; /* where the fp that the walk ended with was read, unless that is written down */
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
 * Walks outward from `registers` and writes encoded frames (recording.h), innermost first.
 * The first frame is registers->pc itself, taken as a return address; frames of our own
 * library at the inner end are walked but not written.  A pc that a signal interrupted is
 * written as pc + 1, so that every native frame is looked up at address - 1.
 * `registers` is left at the frame where it ended (for UNWIND_NO_MODULE: the pc, sp and fp to
 * hand to AsyncGetCallTrace; that frame is not written).
 * Only the thread's own stack is walked: on a signal's alternate stack, or a coroutine's,
 * nothing is written and the end is UNWIND_LOST.
 * Signal-safe; keeps errno; about 1 KiB of stack, 3 KiB when a rule is met for the first time, 5 KiB when a module is.
 * Returns the number of frames written.
 */
size_t unwind(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end);

/* The same, and writes down all that it read: a walk in the same generation from the same pc, sp and fp
 * by the same thread that reads the same words finds the same frames. */
size_t unwind_traced(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end,
                     struct unwind_trace *trace);

#endif
