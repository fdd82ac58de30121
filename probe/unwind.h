/* Native call stacks by .eh_frame, from inside a hook, without locks or allocation. */
#ifndef OFFHEAP_UNWIND_H
#define OFFHEAP_UNWIND_H

#include <stddef.h>
#include <stdint.h>

/* The registers a caller's frame is found from: x86-64 rsp, rbp, rbx, r12-r15; aarch64 sp, x29, x19-x28. */
struct unwind_registers {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t saved[10];
};

enum unwind_end {
    UNWIND_ROOT,      /* the thread's first frame */
    UNWIND_NO_MODULE, /* registers->pc is in no module: JIT code, the interpreter, a stub */
    UNWIND_TRUNCATED, /* max frames */
    UNWIND_LOST,      /* no rule, or a stack that makes no sense */
};

/* Captures the registers of the caller of the function that uses it (always inline, arch file). */
/* #define unwind_here(registers) ... */

/* Walks outward from `registers` and writes encoded frames (recording.h), innermost first.
 * The first frame is registers->pc itself, taken as a return address.  `registers` is left at
 * the frame where it ended (for UNWIND_NO_MODULE: the pc, sp and fp to hand to AsyncGetCallTrace).
 * Returns the number of frames written. */
size_t unwind(struct unwind_registers *registers, uint64_t *frames, size_t max, enum unwind_end *end);

#endif
