/* Hooks of the mapping calls.  Each hook has the parameters and the result of the function that it replaces. */
#ifndef OFFHEAP_MMAP_HOOKS_H
#define OFFHEAP_MMAP_HOOKS_H

#include <stddef.h>
#include <sys/types.h>

void *hook_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int hook_munmap(void *address, size_t length);
void *hook_mremap(void *old, size_t old_length, size_t length, int flags, ...);

#endif
