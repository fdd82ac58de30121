/* What the unwinder must know of aarch64 (DWARF for the Arm 64-bit Architecture, 4.1). */
#ifndef OFFHEAP_ARCH_AARCH64_H
#define OFFHEAP_ARCH_AARCH64_H

/* Columns number the words of struct unwind_registers. */
enum {
    COLUMN_PC,
    COLUMN_SP,
    COLUMN_FP,
    COLUMN_X19,
    COLUMN_X28 = COLUMN_X19 + 9,
    COLUMN_LR,
    UNWIND_COLUMNS,
    COLUMN_RETURN = COLUMN_LR,
};

#define ARCH_RETURN_REGISTER 30u
#define ARCH_STACK_ALIGNMENT 16u

/* DWARF register number -> column, or -1 for an untracked register. */
static inline int arch_column(uint64_t number) {
    if (number >= 19 && number <= 28) return COLUMN_X19 + (int)(number - 19);
    switch (number) {
    case 29: return COLUMN_FP;
    case 30: return COLUMN_LR;
    case 31: return COLUMN_SP;
    default: return -1;
    }
}

/* The address of the thread control block. */
static inline uintptr_t arch_thread_pointer(void) {
    uintptr_t pointer;
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
    return pointer;
}

/* Linux's trampoline `mov x8, #139; svc #0`: the kernel's unwind rules do not mark its frame as a signal frame, and
 * QEMU has no rules for it. */
#define ARCH_SIGNAL_RETURN UINT64_C(0xd4000001d2801168)
/* Where the trampoline's frame keeps the registers, from sp: siginfo 128, ucontext up to mcontext 176, the fault's
 * address 8. */
enum { SIGNAL_FRAME_X0 = 312, SIGNAL_FRAME_SP = SIGNAL_FRAME_X0 + 31 * 8, SIGNAL_FRAME_PC = SIGNAL_FRAME_SP + 8 };

/* Removes a pointer authentication code (XPACLRI, a no-op on processors without such codes). */
static inline uintptr_t arch_strip(uintptr_t address) {
    register uintptr_t lr __asm__("x30") = address;
    __asm__("hint #7" : "+r"(lr));
    return lr;
}

#define unwind_here(registers)                     \
    __asm__ volatile("adr x9, .\n\t"               \
                     "mov x10, sp\n\t"             \
                     "stp x9, x10, [%0]\n\t"       \
                     "stp x29, x19, [%0, #16]\n\t" \
                     "stp x20, x21, [%0, #32]\n\t" \
                     "stp x22, x23, [%0, #48]\n\t" \
                     "stp x24, x25, [%0, #64]\n\t" \
                     "stp x26, x27, [%0, #80]\n\t" \
                     "stp x28, x30, [%0, #96]"     \
                     :                             \
                     : "r"(registers)              \
                     : "x9", "x10", "memory")

#endif
