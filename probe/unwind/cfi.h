/*
 * DWARF call frame information in .eh_frame: from a pc to the rules that find its caller, and from the rules to the
 * caller's registers.  Formats: DWARF 5 section 6.4, and the Linux Standard Base's chapter on .eh_frame and
 * .eh_frame_hdr.  The bytes are not trusted: every read stays inside `low`..`high`, every stack read inside the stack,
 * every loop is bounded.
 */
#ifndef OFFHEAP_CFI_H
#define OFFHEAP_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/registers.h"

/* One module's unwind information, at its mapped address: another thread may unmap it at any time. */
struct cfi_image {
    const uint8_t *header;     /* .eh_frame_hdr */
    const uint8_t *low, *high; /* the readable segment around it; nothing outside is read */
    bool stays;                /* nobody unmaps it: read in place, as copies by the kernel take ten times as long */
};

/* How a register of the caller is found (DWARF 5 section 6.4.1). */
enum cfi_how {
    CFI_SAME, /* unchanged, or never mentioned */
    CFI_UNDEFINED,
    CFI_OFFSET,         /* at CFA + value */
    CFI_VAL_OFFSET,     /* is CFA + value */
    CFI_REGISTER,       /* in column `value`; for the CFA: that register + offset */
    CFI_EXPRESSION,     /* at the address the expression gives */
    CFI_VAL_EXPRESSION, /* is what the expression gives */
};

/* The rules at one pc.  The value of an expression is the offset of its ULEB length from image.low. */
struct cfi_row {
    int64_t value[UNWIND_COLUMNS]; /* bytes, column or expression, by `how` */
    uint8_t how[UNWIND_COLUMNS];   /* enum cfi_how */
    int64_t cfa_value;             /* bytes from cfa_column, or an expression */
    uint8_t cfa_how;               /* CFI_REGISTER or CFI_VAL_EXPRESSION */
    uint8_t cfa_column;
    bool signal_frame; /* the caller was interrupted: its pc is no return address */
};

/* The part of the stack that may be read. */
struct cfi_stack {
    uintptr_t low, high;
};

/* The kernel's copy of a part of an image.  The parts are aligned, so that no part needs more pages than the requested
 * bytes. */
enum { CFI_WINDOW = 256 };
struct cfi_window {
    const struct cfi_image *image;
    const uint8_t *low, *high; /* of the image; equal: nothing is copied yet */
    bool gone;                 /* a part was unmapped before its copy */
    uint8_t bytes[CFI_WINDOW];
};
static inline void cfi_open(struct cfi_window *window, const struct cfi_image *image) {
    window->image = image;
    window->low = window->high = NULL;
    window->gone = false;
}

/* Reads never pass `end`.  The first read that would pass it, or that finds nothing mapped, sets `bad`; from then on
 * all reads return 0. */
struct cfi_cursor {
    const uint8_t *at, *end; /* inside the window's image; never dereferenced */
    bool bad;
    struct cfi_window *window;
};
uint64_t cfi_bytes(struct cfi_cursor *cursor, size_t count); /* at most 8, little-endian */
int64_t cfi_signed(struct cfi_cursor *cursor, size_t count);
uint64_t cfi_uleb(struct cfi_cursor *cursor);
int64_t cfi_sleb(struct cfi_cursor *cursor);

/* The rules at `pc`.  CFI_NONE: there are no rules, or broken ones.  CFI_GONE: another thread is unmapping the
 * module. */
enum cfi_search { CFI_FOUND, CFI_NONE, CFI_GONE };
enum cfi_search cfi_find(const struct cfi_image *image, uintptr_t pc, struct cfi_row *row);

/* Turns `registers` into the caller's registers.  False, with `registers` unchanged: the rules lead outside the
 * stack or backwards.  `leaf`: a signal interrupted the frame, so it may have saved nothing and not moved the stack
 * pointer. */
bool cfi_step(const struct cfi_image *image, const struct cfi_row *row, const struct cfi_stack *stack, bool leaf,
              struct unwind_registers *registers);

#endif
