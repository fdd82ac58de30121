#define _GNU_SOURCE
#include "jvm/bell.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "platform/system.h"

static _Atomic uint32_t rings; /* a futex */
static _Atomic bool asleep;

void bell_ring(void) {
    /* Sequentially consistent: either this thread sees the agent asleep, or the agent sees the ring. */
    atomic_fetch_add(&rings, 1);
    if (!atomic_load(&asleep)) return;
    int saved = errno;
    system_futex_wake(&rings);
    errno = saved;
}

uint32_t bell_rung(void) { return atomic_load(&rings); }

void bell_wait(uint32_t rung, int milliseconds) {
    atomic_store(&asleep, true);
    system_futex_wait(&rings, rung, milliseconds);
    atomic_store(&asleep, false);
}
