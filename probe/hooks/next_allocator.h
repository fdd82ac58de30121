/* The real functions behind the hooks: the next allocator in line (libc's, or a preloaded
 * jemalloc or tcmalloc), found without dlsym, which may itself allocate. */
#ifndef OFFHEAP_NEXT_ALLOCATOR_H
#define OFFHEAP_NEXT_ALLOCATOR_H

#include <stddef.h>
#include <sys/types.h>

/* Each pointer starts as a function that resolves all pointers and then makes the call: the first call of the process
 * may be any of them. */
struct next {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free)(void *);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
    void *(*dlopen)(const char *, int);
    int (*dlclose)(void *);
    void *(*dlsym)(void *, const char *);
};
/* The declaration has the attribute because -fvisibility affects definitions only: other files would take the address
 * from the GOT. */
extern struct next next __attribute__((visibility("hidden")));

/* The real function of a malloc or mmap family symbol, NULL for any other. */
void *next_of(const char *symbol);

/* Fills `next`.  Idempotent; threads may race, since they store the same values. */
void next_resolve(void);

#endif
