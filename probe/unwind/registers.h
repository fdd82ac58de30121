/* The registers that a walk begins with, and their capture on each machine. */
#ifndef OFFHEAP_REGISTERS_H
#define OFFHEAP_REGISTERS_H

#include <stdint.h>

/* The registers that rules find a caller's frame from.  saved[]: x86-64 rbx, r12-r15, r10 (known
 * only below a signal frame); aarch64 x19-x28, x30. */
struct unwind_registers {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t saved[11];
    uintptr_t site; /* not a register: the hook's return address, which tells stack_memo.c the hook's caller */
};

/* unwind_here(struct unwind_registers *): captures the registers of the function that uses it.
 * That function must still be active (not returned, not a tail call) when unwind() is called. */
#if defined(__x86_64__)
#include "unwind/arch_x86_64.h"
#elif defined(__aarch64__)
#include "unwind/arch_aarch64.h"
#else
#error "offheap unwinds x86-64 and aarch64"
#endif

#endif
