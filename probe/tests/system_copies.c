/* system_copies: system_read() of memory that is mapped, unmapped and mapped in part, with any values left on the
 * stack. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "platform/system.h"

enum { PAGE = 4096 };

static __attribute__((noinline)) void litter(void) {
    volatile uint64_t words[512];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) words[i] = UINT64_MAX;
}

static __attribute__((noinline)) bool reads(const char *from, size_t length) {
    char copy[128] = {0};
    litter();
    bool read = system_read((uintptr_t)from, copy, length);
    return read && memcmp(copy, from, length) == 0;
}

int main(void) {
    char *pages = system_pages(2 * PAGE);
    if (!pages) return 2;
    memset(pages, 'x', 2 * PAGE);
    if (system_munmap(pages + PAGE, PAGE) != 0) return 2;
    bool there = reads(pages, 128) && reads(pages + PAGE - 128, 128);
    bool missing = !reads(pages + PAGE, 8) && !reads(pages + PAGE - 64, 128);
    printf("there %d missing %d\n", there, missing);
    return !there || !missing;
}
