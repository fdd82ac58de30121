/*
 * unwind_fuzz ROUNDS SEED: damages copies of real .eh_frame sections and asks for rules and callers.  AddressSanitizer
 * and UBSan report any access outside the copy and the stack.  Some copies fail, as if another thread unmapped the
 * module.
 * In undamaged copies every range of code must have rules, or the fuzzing tests nothing.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/system.h"
#include "unwind/cfi.h"

struct section {
    const uint8_t *low, *high, *header;
};

static struct section sections[16];
static size_t section_count;

static int collect(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes, (void)context;
    if (!info->dlpi_name[0]) return 0; /* this program's own section has AddressSanitizer's red zones */
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) continue;
        uintptr_t header = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        for (int k = 0; k < info->dlpi_phnum; k++) {
            const ElfW(Phdr) *load = &info->dlpi_phdr[k];
            uintptr_t start = info->dlpi_addr + load->p_vaddr;
            if (load->p_type != PT_LOAD || header < start || header >= start + load->p_filesz) continue;
            if (section_count < sizeof sections / sizeof *sections)
                sections[section_count++] = (struct section){
                    (const uint8_t *)start, (const uint8_t *)(start + load->p_filesz), (const uint8_t *)header};
        }
    }
    return 0;
}

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static bool goes;
static uint64_t gone;

/* Replaces the probe's function: AddressSanitizer does not see what the kernel copies. */
bool system_read(uintptr_t from, void *to, size_t length) {
    if (goes && draw(4) == 0) {
        gone++;
        return false;
    }
    memcpy(to, (const void *)from, length);
    return true;
}

enum { STACK_WORDS = 512 };
static uintptr_t *stack;
static uint64_t found, stepped;

static void ask(const struct cfi_image *image, uintptr_t pc) {
    struct cfi_row row;
    if (cfi_find(image, pc, &row) != CFI_FOUND) return;
    found++;
    struct cfi_stack bounds = {(uintptr_t)stack, (uintptr_t)(stack + STACK_WORDS)};
    struct unwind_registers registers = {
        .pc = pc, .sp = bounds.low + 8 * draw(64), .fp = bounds.low + 8 * draw(STACK_WORDS)};
    for (size_t i = 0; i < sizeof registers.saved / sizeof *registers.saved; i++)
        registers.saved[i] = draw(4) ? bounds.low + 8 * draw(STACK_WORDS) : (uintptr_t)draw(UINT64_MAX);
    stepped += cfi_step(image, &row, &bounds, draw(8) == 0, &registers);
}

static uint8_t interesting(void) {
    static const uint8_t bytes[] = {0,    1,    0x0a, 0x0b, 0x0f, 0x10, 0x16, 0x7f,
                                    0x80, 0xff, 0x06, 0x2f, 0x28, 'R',  'P',  'z'};
    return draw(2) ? (uint8_t)draw(256) : bytes[draw(sizeof bytes)];
}

int main(int argc, char **argv) {
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) * 2654435761u + 1 : 88172645463325252u;
    dl_iterate_phdr(collect, NULL);
    stack = malloc(STACK_WORDS * sizeof *stack);
    for (size_t i = 0; i < STACK_WORDS; i++) stack[i] = (uintptr_t)(stack + draw(STACK_WORDS));

    for (size_t s = 0; s < section_count; s++) {
        const struct section *section = &sections[s];
        size_t bytes = (size_t)(section->high - section->low), header = (size_t)(section->header - section->low);
        uint8_t *copy = malloc(bytes);
        memcpy(copy, section->low, bytes);
        struct cfi_image image = {copy + header, copy, copy + bytes, false};
        uint32_t count;
        memcpy(&count, copy + header + 8, sizeof count);
        const uint8_t *table = copy + header + 12;

        uint64_t before = found;
        for (uint32_t i = 0; i < count; i++) {
            int32_t offset;
            memcpy(&offset, table + 8 * i, sizeof offset);
            ask(&image, (uintptr_t)image.header + (uintptr_t)(intptr_t)offset);
        }
        if (found - before != count) {
            fprintf(stderr, "section %zu: rules for %lu of %u entries\n", s, (unsigned long)(found - before), count);
            return 1;
        }
        for (uint64_t round = 0; round < rounds / section_count; round++) {
            uint32_t entry = (uint32_t)draw(count);
            int32_t code, fde;
            memcpy(&code, table + 8 * entry, sizeof code);
            memcpy(&fde, table + 8 * entry + 4, sizeof fde);
            size_t at = header + (size_t)fde, damages = 1 + draw(6), places[6];
            uint8_t saved[6];
            int32_t back; /* the FDE's CIE: damage in it changes the augmentation and the initial instructions */
            memcpy(&back, copy + at + 4, sizeof back);
            for (size_t d = 0; d < damages; d++) {
                uint64_t where = draw(10);
                places[d] = where < 6   ? at + draw(64)
                            : where < 9 ? at + 4 - (size_t)back + draw(32)
                                        : header + draw(12 + 8 * (uint64_t)count);
                if (places[d] >= bytes) places[d] = bytes - 1;
                saved[d] = copy[places[d]];
                copy[places[d]] = interesting();
            }
            goes = draw(8) == 0;
            ask(&image, (uintptr_t)image.header + (uintptr_t)(intptr_t)code + draw(64));
            goes = false;
            /* Cuts the section short: the segment ends in the middle of this entry. */
            size_t end = at + draw(48);
            struct cfi_image cut = {image.header, copy, copy + (end < bytes ? end : bytes), false};
            if (cut.high > cut.header) ask(&cut, (uintptr_t)image.header + (uintptr_t)(intptr_t)code);
            while (damages-- > 0) copy[places[damages]] = saved[damages];
        }
        free(copy);
    }
    printf("sections %zu rules %lu callers %lu gone %lu\n", section_count, (unsigned long)found, (unsigned long)stepped,
           (unsigned long)gone);
    return 0;
}
