/* What the unwinder must know of x86-64 (System V ABI, table 3.36: DWARF register numbers). */
#ifndef OFFHEAP_ARCH_X86_64_H
#define OFFHEAP_ARCH_X86_64_H

/* Columns number the words of struct unwind_registers. */
enum {
    COLUMN_PC,
    COLUMN_SP,
    COLUMN_FP,
    COLUMN_RBX,
    COLUMN_R12,
    COLUMN_R13,
    COLUMN_R14,
    COLUMN_R15,
    COLUMN_R10, /* the stack-realigning prologue's copy of the CFA */
    UNWIND_COLUMNS,
    COLUMN_RETURN = COLUMN_PC,
};

#define ARCH_RETURN_REGISTER 16u /* DWARF's number of the return address column */
#define ARCH_STACK_ALIGNMENT 8u

/* DWARF register number -> column, or -1 for an untracked register. */
static inline int arch_column(uint64_t number) {
    switch (number) {
    case 3: return COLUMN_RBX;
    case 6: return COLUMN_FP;
    case 7: return COLUMN_SP;
    case 10: return COLUMN_R10;
    case 12: return COLUMN_R12;
    case 13: return COLUMN_R13;
    case 14: return COLUMN_R14;
    case 15: return COLUMN_R15;
    case 16: return COLUMN_PC;
    default: return -1;
    }
}

/* The address of the thread control block. */
static inline uintptr_t arch_thread_pointer(void) {
    uintptr_t pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

static inline uintptr_t arch_strip(uintptr_t address) { return address; }

#define unwind_here(registers)                 \
    __asm__ volatile("lea 0(%%rip), %%rax\n\t" \
                     "mov %%rax, 0(%0)\n\t"    \
                     "mov %%rsp, 8(%0)\n\t"    \
                     "mov %%rbp, 16(%0)\n\t"   \
                     "mov %%rbx, 24(%0)\n\t"   \
                     "mov %%r12, 32(%0)\n\t"   \
                     "mov %%r13, 40(%0)\n\t"   \
                     "mov %%r14, 48(%0)\n\t"   \
                     "mov %%r15, 56(%0)\n\t"   \
                     "movq $0, 64(%0)"         \
                     :                         \
                     : "r"(registers)          \
                     : "rax", "memory")

#endif
