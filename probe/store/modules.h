/* The module (ELF image) that covers an address: lock-free, signal-safe, registered in the live file. */
#ifndef OFFHEAP_MODULES_H
#define OFFHEAP_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A published module never changes or goes away, so a pointer to it stays valid.  A reload at the same place is the
 * same module.  Only the module's row changes, when a recording starts. */
struct module {
    uintptr_t start, end; /* mapped */
    uintptr_t bias;
    uintptr_t entry;             /* entry point of a program or of the dynamic linker */
    const uint8_t *eh_frame_hdr; /* mapped .eh_frame_hdr, or NULL */
    uint64_t eh_frame_hdr_bytes;
    const uint8_t *readable_low, *readable_high; /* the loaded segment around .eh_frame_hdr */
    const void *dynamic;                         /* identifies the image, together with the bias */
    uint64_t identity;                           /* a hash of path, extent and build-id */
    /* NATIVE | row << 40 | -bias: the sum with a pc is the frame.  0: the module has no row. */
    _Atomic uint64_t frame_base;
    bool own; /* liboffheap itself */
    bool vdso;
    bool stays; /* nobody unmaps it before the process ends */
};

enum { MODULES_MAX = 4096, MODULE_NOWHERE = MODULES_MAX - 1 }; /* the last entry is no module and stays without a row */
extern struct module modules[MODULES_MAX] __attribute__((visibility("hidden")));

/* The registered module that covers `pc`, or NULL.  Writes nothing, so a call is allowed at any time.  Signal-safe
 * with glibc >= 2.35 (_dl_find_object).  Older versions need dl_iterate_phdr, which takes the loader's recursive lock,
 * as every C++ throw does there: a signal that interrupts the locking itself could wait for itself. */
const struct module *module_of(uintptr_t pc);
/* The same for the unwinder, and gives each new module a row with path and build-id, so the live file must stay mapped
 * during the call.  MODULE_UNKNOWN: busy, or MODULES_MAX reached. */
enum module_search { MODULE_FOUND, MODULE_NONE, MODULE_UNKNOWN };
enum module_search module_search(uintptr_t pc, const struct module **module);
static inline size_t module_index(const struct module *module) { return (size_t)(module - modules); }

/* The next three write to the live file, which must stay mapped during the call. */

/* Call it when a recording starts: no module has a row in it yet. */
void modules_start(void);
/* Registers every loaded module, so that the live file lists them before a sample meets them, and marks those that
 * were unloaded. */
void modules_register_all(void);
/* After a dlclose: marks modules that were unloaded. */
void modules_forget_closed(void);
/* Grows when the meaning of a pc may have changed; caches keyed by pc compare it. */
extern _Atomic uint32_t modules_generation __attribute__((visibility("hidden")));

#endif
