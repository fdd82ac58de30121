/* Native call stacks by .eh_frame, from inside a hook, without locks or allocation. */
#ifndef OFFHEAP_UNWIND_H
#define OFFHEAP_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/registers.h"

/* A word of the stack that a walk reads; see unwind_traced(). */
struct unwind_read {
    const uintptr_t *at;
    uintptr_t word;
};
/* All words that a walk reads. */
struct unwind_trace {
    uint32_t generation; /* modules_generation at the start of the walk */
    uint32_t room;
    uint32_t count; /* room + 1: the walk read more, or needed more than packed rules */
    struct unwind_read *reads;
    const uintptr_t *fp; /* where the walk read its last fp, unless that is in `reads` */
};

/* Adds the word at `at`, or notes that there is no room. */
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
 * registers->pc itself, as a return address; the walk does not write frames of this library at the inner end.  It
 * writes a pc that a signal interrupted as pc + 1, so that readers look up every native frame at address - 1.
 * Afterwards `registers` are those of the frame where the walk ended.  For UNWIND_NO_MODULE the walk does not write
 * that frame; AsyncGetCallTrace needs its pc, sp and fp.  The walk covers only the thread's own stack: on a signal's
 * alternate stack, or a coroutine's, it writes no frame and the end is UNWIND_LOST.
 *
 * Signal-safe; keeps errno; takes about 1 KiB of stack, 3 KiB when it meets a rule for the first time, 5 KiB when it
 * meets a module.  Returns the number of frames written.
 */
size_t unwind(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end);

/* The same; also writes down in `trace` (may be NULL) every word that the walk reads.  A walk by the same thread, in
 * the same generation, from the same pc, sp and fp, finds the same frames if it reads the same words. */
size_t unwind_traced(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end,
                     struct unwind_trace *trace);

#endif
