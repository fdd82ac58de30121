/*
 * Clang's libFuzzer on the unwinder: coverage finds damage that random changes (unwind_fuzz.c) do not.
 *
 *     input: struct question, then the image: .eh_frame_hdr, .eh_frame
 *            code: where the question's pc is, from .eh_frame_hdr
 *
 * `make fuzz` starts it with the sections of real libraries.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "platform/system.h"
#include "unwind/cfi.h"

struct question {
    int32_t code;
    uint16_t header; /* of the image, where .eh_frame_hdr begins */
    uint8_t sp, fp;  /* words into the stack */
    uint8_t how;     /* LEAF, STAYS; higher bits: number of copies before the image is gone, 0: it stays */
    uint8_t unused[3];
};
enum { LEAF = 1, STAYS = 2, GOES_SHIFT = 2, STACK_WORDS = 256, MOST_FRAMES = 8 };

static unsigned copies_left;

/* Replaces the probe's function: AddressSanitizer does not see what the kernel copies. */
bool system_read(uintptr_t from, void *to, size_t length) {
    if (copies_left && --copies_left == 0) {
        copies_left = 1;
        return false;
    }
    memcpy(to, (const void *)from, length);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct question asked;
    if (size <= sizeof asked) return 0;
    memcpy(&asked, data, sizeof asked);
    size_t bytes = size - sizeof asked;
    if (asked.header >= bytes) return 0;
    /* Separate copies: AddressSanitizer reports a read past their ends. */
    uint8_t *copy = malloc(bytes);
    uintptr_t *stack = malloc(STACK_WORDS * sizeof *stack);
    if (!copy || !stack) abort();
    memcpy(copy, data + sizeof asked, bytes);
    for (size_t i = 0; i < STACK_WORDS; i++) stack[i] = i % 3 ? (uintptr_t)(stack + i) : (uintptr_t)copy + 8 * i;

    struct cfi_image image = {copy + asked.header, copy, copy + bytes, asked.how & STAYS};
    struct cfi_stack bounds = {(uintptr_t)stack, (uintptr_t)(stack + STACK_WORDS)};
    struct unwind_registers registers = {
        .pc = (uintptr_t)image.header + (uintptr_t)(intptr_t)asked.code,
        .sp = bounds.low + 8 * (uintptr_t)asked.sp,
        .fp = bounds.low + 8 * (uintptr_t)asked.fp,
    };
    for (size_t i = 0; i < sizeof registers.saved / sizeof *registers.saved; i++)
        registers.saved[i] = (uintptr_t)(stack + 7 * i);
    copies_left = asked.how >> GOES_SHIFT;
    bool leaf = asked.how & LEAF;
    struct cfi_row row;
    for (int frame = 0; frame < MOST_FRAMES && cfi_find(&image, registers.pc, &row) == CFI_FOUND; frame++) {
        if (!cfi_step(&image, &row, &bounds, leaf, &registers)) break;
        leaf = row.signal_frame;
        /* A word of the stack is seldom an address in this image's code. */
        registers.pc = (uintptr_t)image.header + (uintptr_t)(intptr_t)asked.code + (uintptr_t)frame;
    }
    free(stack);
    free(copy);
    return 0;
}
