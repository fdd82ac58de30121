/*
 * pthread_getattr_np knows the end of a stack, but it reallocs under the thread's lock: called from inside a realloc of
 * that function, it would wait for itself.  So the end comes from the data at the top of every stack: the thread
 * control block (pthread_create carves it out of the stack's upper end), or for the main thread the data that the
 * kernel puts there at exec.
 *
 * A stack pointer below such an anchor need not be on the same stack.  So stack_bounds tries every page between the two
 * once, by a system call that returns EFAULT instead of a fault.  A foreign stack has a hole or a guard page in
 * between.
 */
#define _GNU_SOURCE
#include "unwind/stack_bounds.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unwind/registers.h"

enum { PAGE = 4096, WORD = sizeof(uintptr_t) };
/* Java threads usually have 1 MiB, main threads 8 MiB; a heap below its thread's stack is farther away. */
#define DEEPEST ((uintptr_t)256 << 20)

/* [low, high) is known to be readable.  high == 0: nothing is known yet. */
static _Thread_local struct {
    volatile uintptr_t low, high;
} known __attribute__((tls_model("initial-exec")));

/* rt_sigprocmask copies the set before it refuses `how`, so nothing changes either way. */
static bool readable(uintptr_t address) {
    syscall(SYS_rt_sigprocmask, ~0, (const void *)address, NULL, WORD);
    return errno != EFAULT;
}

static bool readable_pages(uintptr_t low, uintptr_t high) {
    int saved = errno;
    bool all = true;
    for (uintptr_t page = low; page < high && all; page += PAGE) {
        errno = 0;
        all = readable(page);
    }
    errno = saved;
    return all;
}

bool word_readable(uintptr_t address) {
    int saved = errno;
    errno = 0;
    bool can = readable(address);
    errno = saved;
    return can;
}

bool stack_bounds(uintptr_t sp, uintptr_t *high) {
    uintptr_t top = known.high;
    if (top && sp >= known.low && sp < top) {
        *high = top;
        return true;
    }
    uintptr_t thread = arch_thread_pointer() & -(uintptr_t)WORD;
    uintptr_t exec = (uintptr_t)getauxval(AT_RANDOM) & -(uintptr_t)WORD;
    /* The main thread's control block lies below its stack, like ld.so's memory. */
    uintptr_t anchor = sp < thread && (sp >= exec || thread < exec) ? thread : exec;
    if (sp >= anchor || anchor - sp > DEEPEST) return false;

    uintptr_t low = sp & -(uintptr_t)PAGE;
    uintptr_t tried = top == anchor && known.low < anchor ? known.low : anchor;
    if (tried <= low || !readable_pages(low, tried)) return false;
    /* A signal handler may run in between; it must see a matching pair. */
    known.high = 0;
    known.low = low;
    known.high = anchor;
    *high = anchor;
    return true;
}
