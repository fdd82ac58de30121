/* The malloc family: hooks by name, and the variants of exact mode.  Each hook has the parameters and the result of the
 * function that it replaces. */
#ifndef OFFHEAP_MALLOC_HOOKS_H
#define OFFHEAP_MALLOC_HOOKS_H

#include <stddef.h>

void *hook_malloc(size_t size);
void *hook_calloc(size_t count, size_t size);
void *hook_realloc(void *old, size_t size);
void *hook_reallocarray(void *old, size_t count, size_t size);
void *hook_memalign(size_t alignment, size_t size);
void *hook_aligned_alloc(size_t alignment, size_t size);
int hook_posix_memalign(void **block, size_t alignment, size_t size);
void *hook_valloc(size_t size);
void *hook_pvalloc(size_t size);
void hook_free(void *block);
void hook_cfree(void *block);
void hook_free_sized(void *block, size_t size);
void hook_free_aligned_sized(void *block, size_t alignment, size_t size);

void *exact_malloc(size_t size);
void *exact_calloc(size_t count, size_t size);
void *exact_realloc(void *old, size_t size);
void *exact_reallocarray(void *old, size_t count, size_t size);
void *exact_memalign(size_t alignment, size_t size);
void *exact_aligned_alloc(size_t alignment, size_t size);
int exact_posix_memalign(void **block, size_t alignment, size_t size);
void *exact_valloc(size_t size);
void *exact_pvalloc(size_t size);

#endif
