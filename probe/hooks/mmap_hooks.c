/*
 * The mapping calls.  A mapping counts while it is accessible: PROT_NONE reservations are address space, not memory.
 * The hook sees the call that later commits a reservation (MAP_FIXED, as HotSpot does).
 */
#define _GNU_SOURCE
#include "hooks/mmap_hooks.h"

#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>

#include "guard/guard.h"
#include "hooks/next_allocator.h"
#include "platform/compiler.h"
#include "sampling/record.h"
#include "store/modules.h"
#include "unwind/stack_bounds.h"

/* The probe records the blocks of a chained allocator, and therefore not the arenas around them. */
static bool from_allocator(const void *caller) {
    const struct module *allocator = module_of((uintptr_t)next.malloc);
    return allocator && module_of((uintptr_t)caller) == allocator;
}

static __attribute__((noinline)) void slow_mapping(void *start, size_t length, enum offheap_hook hook, uint32_t birth) {
    struct unwind_registers here;
    unwind_here(&here);
    here.site = (uintptr_t)__builtin_return_address(0);
    record_mapping(start, length, hook, &here, birth);
}

void *hook_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    if (!guard_is_recording()) return next.mmap(address, length, protection, flags, fd, offset);
    struct ranges_taken under = {.count = 0};
    if (flags & MAP_FIXED) record_unmapping(address, length, &under);
    void *start = next.mmap(address, length, protection, flags, fd, offset);
    if (start == MAP_FAILED) record_moved(&under, address, address, length);
    else if (protection != PROT_NONE && !from_allocator(__builtin_return_address(0)))
        slow_mapping(start, length, OFFHEAP_HOOK_mmap, 0);
    return start;
}

int hook_munmap(void *address, size_t length) {
    if (!guard_is_recording() || !length) return next.munmap(address, length);
    struct ranges_taken taken = {.count = 0};
    record_unmapping(address, length, &taken);
    int error = next.munmap(address, length);
    if (error) record_moved(&taken, address, address, length);
    return error;
}

void *hook_mremap(void *old, size_t old_length, size_t length, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    void *wanted = va_arg(arguments, void *);
    va_end(arguments);
    if (!guard_is_recording()) return next.mremap(old, old_length, length, flags, wanted);

    struct ranges_taken taken = {.count = 0}, under = {.count = 0};
    if (old_length) record_unmapping(old, old_length, &taken); /* 0: maps shared pages a second time */
    if (flags & MREMAP_FIXED) record_unmapping(wanted, length, &under);
    void *start = next.mremap(old, old_length, length, flags, wanted);
    if (start == MAP_FAILED) {
        record_moved(&taken, old, old, old_length);
        record_moved(&under, wanted, wanted, length);
    } else if (length > old_length) {
        /* As in realloc, the sampler decides anew about the longer mapping, which keeps its age.  A reservation stays a
         * reservation. */
        if (word_readable((uintptr_t)start))
            slow_mapping(start, length, OFFHEAP_HOOK_mremap, taken.count ? taken.part[0].birth : 0);
    } else {
        record_moved(&taken, old, start, length);
    }
    return start;
}

EXPORT extern __typeof__(hook_mmap) mmap __attribute__((alias("hook_mmap")));
EXPORT extern __typeof__(hook_mmap) mmap64 __attribute__((alias("hook_mmap"))); /* off_t has 64 bits */
EXPORT extern __typeof__(hook_munmap) munmap __attribute__((alias("hook_munmap")));
EXPORT extern __typeof__(hook_mremap) mremap __attribute__((alias("hook_mremap")));
