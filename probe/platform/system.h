/* System calls that must bypass the hooks, and the probe's own memory. */
#ifndef OFFHEAP_SYSTEM_H
#define OFFHEAP_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* MAP_FAILED on error, as mmap. */
static inline void *system_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

static inline int system_munmap(void *address, size_t length) { return (int)syscall(SYS_munmap, address, length); }

/* Zeroed pages, or NULL. */
static inline void *system_pages(size_t length) {
    void *pages = system_mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* Copies memory of this process that may be unmapped.  False: a part of it is unmapped.  If the kernel or a seccomp
 * filter refuses the copy, reads the memory directly, which must then be mapped.  Keeps errno. */
bool system_read(uintptr_t from, void *to, size_t length);

/* Clocks, in ns.  The coarse one is CLOCK_MONOTONIC in steps of 1 to 4 ms; the vdso reads it in 5 ns. */
uint64_t system_coarse_ns(void);
uint64_t system_monotonic_ns(void);
uint64_t system_realtime_ns(void);
/* The first sleeps while *word == value, `milliseconds` at most; the second wakes one such sleeper.  Neither is a
 * cancellation point; both set errno. */
void system_futex_wait(_Atomic uint32_t *word, uint32_t value, int milliseconds);
void system_futex_wake(_Atomic uint32_t *word);

/* CPU time of the whole process; a system call, which reads every thread. */
uint64_t system_cpu_ns(void);
/* CPU time of the calling thread; a system call. */
uint64_t system_thread_cpu_ns(void);

#endif
