/* Which module (ELF image) covers an address: lock-free, signal-safe, registered in the live file. */
#ifndef OFFHEAP_MODULES_H
#define OFFHEAP_MODULES_H

#include <stdbool.h>
#include <stdint.h>

struct module {
    uint32_t row;           /* in MODULES */
    uintptr_t start, end;   /* mapped */
    uintptr_t bias;
    const uint8_t *eh_frame_hdr; /* mapped .eh_frame_hdr, or NULL */
    uint64_t eh_frame_hdr_bytes;
};

/* The module that covers `pc`, or NULL.  Meets new modules by itself (_dl_find_object,
 * or dl_iterate_phdr before glibc 2.35) and gives each a row with path and build-id. */
const struct module *module_of(uintptr_t pc);
/* After a dlclose: forget modules that went, and mark their rows. */
void modules_forget_closed(void);
/* Grows with every dlclose; caches keyed by pc compare it. */
extern _Atomic uint32_t modules_generation;

#endif
