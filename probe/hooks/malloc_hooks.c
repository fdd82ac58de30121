/*
 * The malloc family.  Each hook is a few instructions that decide "surely not sampled" and jump to the real function.
 * All other work is in slow_* and record_*, out of line, so that the fast path needs no stack frame.  exact_* have no
 * countdown.
 *
 * The hooks are hidden hook_* functions with exported aliases: inside a library loaded by dlopen, a reference to its
 * own exported `malloc` would bind to libc's.
 */
#include "hooks/malloc_hooks.h"

#include <errno.h>

#include "hooks/next_allocator.h"
#include "platform/compiler.h"
#include "sampling/record.h"
#include "sampling/sampler.h"
#include "store/table.h"

#define SLOW static __attribute__((noinline))

/* The real call comes first: an allocation that fails leaves no trace. */
#define RECORD(block, size, hook)                           \
    do {                                                    \
        struct unwind_registers here;                       \
        unwind_here(&here);                                 \
        here.site = (uintptr_t)__builtin_return_address(0); \
        record_block((block), (size), (hook), &here);       \
    } while (0)

SLOW void *record_malloc(size_t size) {
    void *block = next.malloc(size);
    if (block) RECORD(block, size, OFFHEAP_HOOK_malloc);
    return block;
}

SLOW void *slow_malloc(size_t size) { return sampler_passes_on(size) ? next.malloc(size) : record_malloc(size); }

void *hook_malloc(size_t size) {
    if (likely(sampler_passes(size))) return next.malloc(size);
    return slow_malloc(size);
}

void *exact_malloc(size_t size) { return record_malloc(size); }

SLOW void *record_calloc(size_t count, size_t size) {
    void *block = next.calloc(count, size);
    if (block) RECORD(block, count * size, OFFHEAP_HOOK_calloc);
    return block;
}

SLOW void *slow_calloc(size_t count, size_t size) {
    size_t bytes;
    bool passes = !__builtin_mul_overflow(count, size, &bytes) && sampler_passes_on(bytes);
    return passes ? next.calloc(count, size) : record_calloc(count, size);
}

void *hook_calloc(size_t count, size_t size) {
    size_t bytes;
    if (likely(!__builtin_mul_overflow(count, size, &bytes) && sampler_passes(bytes))) return next.calloc(count, size);
    return slow_calloc(count, size);
}

void *exact_calloc(size_t count, size_t size) { return record_calloc(count, size); }

SLOW void *reallocate(void *old, size_t size, enum offheap_hook hook) {
    struct offheap_value kept;
    /* Forgets before the call: afterwards the old address may belong to another thread. */
    bool known = old && record_forget(old, &kept);
    void *block = next.realloc(old, size);
    if (block) RECORD(block, size, hook);
    else if (known && size != 0) record_restore(old, kept); /* failed; realloc(p, 0) frees */
    return block;
}

/* For an `old` that is not recorded. */
SLOW void *slow_realloc(void *old, size_t size, enum offheap_hook hook) {
    if (sampler_passes_on(size)) return next.realloc(old, size);
    return reallocate(old, size, hook);
}

void *hook_realloc(void *old, size_t size) {
    if (unlikely(!table_lacks(old))) return reallocate(old, size, OFFHEAP_HOOK_realloc);
    if (likely(sampler_passes(size))) return next.realloc(old, size);
    return slow_realloc(old, size, OFFHEAP_HOOK_realloc);
}

void *exact_realloc(void *old, size_t size) { return reallocate(old, size, OFFHEAP_HOOK_realloc); }

/* Not every next allocator has reallocarray (jemalloc does not), so the hook checks the product and calls realloc. */
void *hook_reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (unlikely(!table_lacks(old))) return reallocate(old, bytes, OFFHEAP_HOOK_reallocarray);
    if (likely(sampler_passes(bytes))) return next.realloc(old, bytes);
    return slow_realloc(old, bytes, OFFHEAP_HOOK_reallocarray);
}

void *exact_reallocarray(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return hook_reallocarray(old, count, size);
    return reallocate(old, bytes, OFFHEAP_HOOK_reallocarray);
}

#define ALIGNED(name)                                                                                 \
    SLOW void *record_##name(size_t alignment, size_t size) {                                         \
        void *block = next.name(alignment, size);                                                     \
        if (block) RECORD(block, size, OFFHEAP_HOOK_##name);                                          \
        return block;                                                                                 \
    }                                                                                                 \
    SLOW void *slow_##name(size_t alignment, size_t size) {                                           \
        return sampler_passes_on(size) ? next.name(alignment, size) : record_##name(alignment, size); \
    }                                                                                                 \
    void *hook_##name(size_t alignment, size_t size) {                                                \
        if (likely(sampler_passes(size))) return next.name(alignment, size);                          \
        return slow_##name(alignment, size);                                                          \
    }                                                                                                 \
    void *exact_##name(size_t alignment, size_t size) { return record_##name(alignment, size); }
ALIGNED(memalign)
ALIGNED(aligned_alloc)

#define PAGED(name)                                                                                                 \
    SLOW void *record_##name(size_t size) {                                                                         \
        void *block = next.name(size);                                                                              \
        if (block) RECORD(block, size, OFFHEAP_HOOK_##name);                                                        \
        return block;                                                                                               \
    }                                                                                                               \
    SLOW void *slow_##name(size_t size) { return sampler_passes_on(size) ? next.name(size) : record_##name(size); } \
    void *hook_##name(size_t size) {                                                                                \
        if (likely(sampler_passes(size))) return next.name(size);                                                   \
        return slow_##name(size);                                                                                   \
    }                                                                                                               \
    void *exact_##name(size_t size) { return record_##name(size); }
PAGED(valloc)
PAGED(pvalloc)

SLOW int record_posix_memalign(void **block, size_t alignment, size_t size) {
    int error = next.posix_memalign(block, alignment, size);
    if (!error && *block) RECORD(*block, size, OFFHEAP_HOOK_posix_memalign);
    return error;
}

SLOW int slow_posix_memalign(void **block, size_t alignment, size_t size) {
    if (sampler_passes_on(size)) return next.posix_memalign(block, alignment, size);
    return record_posix_memalign(block, alignment, size);
}

int hook_posix_memalign(void **block, size_t alignment, size_t size) {
    if (likely(sampler_passes(size))) return next.posix_memalign(block, alignment, size);
    return slow_posix_memalign(block, alignment, size);
}

int exact_posix_memalign(void **block, size_t alignment, size_t size) {
    return record_posix_memalign(block, alignment, size);
}

SLOW void slow_free(void *block) {
    if (block) record_forget(block, NULL);
    next.free(block);
}

void hook_free(void *block) {
    if (likely(table_lacks(block))) {
        next.free(block);
        return;
    }
    slow_free(block);
}

/* glibc has no cfree from 2.26 on, and no free_sized (C23): a program that finds them in this library uses them as
 * free. */
void hook_cfree(void *block) { hook_free(block); }
void hook_free_sized(void *block, size_t size) {
    (void)size;
    hook_free(block);
}
void hook_free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment, (void)size;
    hook_free(block);
}

#define EXPORTED(name) EXPORT extern __typeof__(hook_##name) name __attribute__((alias("hook_" #name)));
EXPORTED(malloc)
EXPORTED(calloc)
EXPORTED(realloc)
EXPORTED(reallocarray)
EXPORTED(memalign)
EXPORTED(aligned_alloc)
EXPORTED(posix_memalign)
EXPORTED(valloc)
EXPORTED(pvalloc)
EXPORTED(free)
EXPORTED(cfree)
EXPORTED(free_sized)
EXPORTED(free_aligned_sized)
