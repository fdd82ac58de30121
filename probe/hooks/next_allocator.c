#define _GNU_SOURCE
#include "hooks/next_allocator.h"

#include <errno.h>
#include <string.h>

#include "platform/elf_image.h"
#include "platform/system.h"

static void *first_malloc(size_t size) { return next_resolve(), next.malloc(size); }
static void *first_calloc(size_t count, size_t size) { return next_resolve(), next.calloc(count, size); }
static void *first_realloc(void *block, size_t size) { return next_resolve(), next.realloc(block, size); }
static void *first_memalign(size_t alignment, size_t size) { return next_resolve(), next.memalign(alignment, size); }
static void *first_aligned_alloc(size_t alignment, size_t size) {
    return next_resolve(), next.aligned_alloc(alignment, size);
}
static int first_posix_memalign(void **block, size_t alignment, size_t size) {
    return next_resolve(), next.posix_memalign(block, alignment, size);
}
static void *first_valloc(size_t size) { return next_resolve(), next.valloc(size); }
static void *first_pvalloc(size_t size) { return next_resolve(), next.pvalloc(size); }
static void first_free(void *block) { next_resolve(), next.free(block); }
static void *first_dlopen(const char *file, int mode) { return next_resolve(), next.dlopen(file, mode); }
static int first_dlclose(void *handle) { return next_resolve(), next.dlclose(handle); }
static void *first_dlsym(void *handle, const char *name) { return next_resolve(), next.dlsym(handle, name); }

/* The mapping calls need no library behind them. */
static void *direct_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return system_mmap(address, length, protection, flags, fd, offset);
}
static int direct_munmap(void *address, size_t length) { return system_munmap(address, length); }
static void *direct_mremap(void *old, size_t old_length, size_t length, int flags, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, flags);
    void *wanted = __builtin_va_arg(arguments, void *);
    __builtin_va_end(arguments);
    return (void *)syscall(SYS_mremap, old, old_length, length, flags, wanted);
}

struct next next = {
    .malloc = first_malloc,
    .calloc = first_calloc,
    .realloc = first_realloc,
    .memalign = first_memalign,
    .aligned_alloc = first_aligned_alloc,
    .posix_memalign = first_posix_memalign,
    .valloc = first_valloc,
    .pvalloc = first_pvalloc,
    .free = first_free,
    .mmap = direct_mmap,
    .munmap = direct_munmap,
    .mremap = direct_mremap,
    .dlopen = first_dlopen,
    .dlclose = first_dlclose,
    .dlsym = first_dlsym,
};

/* For an allocator that lacks a rare function: fails as libc fails. */
static void *refuse_memalign(size_t alignment, size_t size) {
    (void)alignment, (void)size;
    errno = ENOMEM;
    return NULL;
}
static void *refuse_valloc(size_t size) { return refuse_memalign(0, size); }
static int refuse_posix_memalign(void **block, size_t alignment, size_t size) {
    (void)block, (void)alignment, (void)size;
    return ENOMEM;
}

#define FIND(name, otherwise)                                           \
    do {                                                                \
        void *found = elf_next_symbol(&next, #name);                    \
        next.name = found ? (__typeof__(next.name))found : (otherwise); \
    } while (0)

void next_resolve(void) {
    FIND(malloc, NULL);
    FIND(calloc, NULL);
    FIND(realloc, NULL);
    FIND(free, NULL);
    FIND(memalign, refuse_memalign);
    FIND(aligned_alloc, next.memalign);
    FIND(posix_memalign, refuse_posix_memalign);
    FIND(valloc, refuse_valloc);
    FIND(pvalloc, refuse_valloc);
    FIND(dlopen, NULL);
    FIND(dlclose, NULL);
    FIND(dlsym, NULL);
}

#define NAMED(name) {#name, offsetof(struct next, name)}
static const struct {
    const char *symbol;
    size_t offset;
} resolved[] = {NAMED(malloc),         NAMED(calloc), NAMED(realloc), NAMED(memalign), NAMED(aligned_alloc),
                NAMED(posix_memalign), NAMED(valloc), NAMED(pvalloc), NAMED(free)};

void *next_of(const char *symbol) {
    for (size_t i = 0; i < sizeof resolved / sizeof *resolved; i++)
        if (strcmp(resolved[i].symbol, symbol) == 0) return *(void **)((char *)&next + resolved[i].offset);
    /* The mapping calls in `next` are direct system calls; a caller that asks by name gets libc's functions. */
    if (strcmp(symbol, "dlopen") && strcmp(symbol, "dlclose") && strcmp(symbol, "dlsym"))
        return elf_next_symbol(&next, symbol);
    return NULL;
}
