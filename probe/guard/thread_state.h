/*
 * What the probe keeps of each thread, in one variable: the hooks' fast path is one fs-relative load.
 * Every field belongs to the file that is named above it; no other file writes it.
 */
#ifndef OFFHEAP_THREAD_STATE_H
#define OFFHEAP_THREAD_STATE_H

#include <stdint.h>

/* Of thread_state.inside. */
enum {
    THREAD_OUTSIDE,
    THREAD_INSIDE,    /* between guard_enter and guard_leave */
    THREAD_OWN_DOING, /* what the thread allocates is the probe's doing: neither recorded nor counted as lost */
};

struct thread_state {
    /* sampling/sampler.c */
    uint64_t countdown; /* 0: take the slow path */
    uint64_t random;
    uint64_t beyond;  /* bytes of the countdown that come after this piece of it */
    double chance;    /* in (0, 1]: of the block in which the countdown ends, for class_takes */
    double large;     /* the countdown of large blocks */
    uint32_t session; /* of the recording the countdown was drawn for */

    /* store/threads.c */
    uint32_t thread_recording; /* the one that `thread` belongs to */
    uint16_t thread;           /* row in THREADS, 0: not asked yet */

    /* guard/guard.c, and who marks its own doing */
    uint8_t inside;

    /* store/threads.c */
    uint8_t name_age; /* rows asked for since the thread's name was first asked for */

    /* sampling/sampler.c */
    uint8_t code;        /* interval code the countdown was drawn under */
    uint8_t taken;       /* and the one of the latest sample */
    uint8_t passed_over; /* not yet in what sampler_passed_over says */

    /* sampling/budget.c */
    uint8_t frees; /* until one is timed */
};

/* The calling thread's.  initial-exec: global-dynamic costs 1.5 ns a call, and its first use in a thread
 * allocates.  Loaded by dlopen it takes its 56 bytes from glibc's static TLS surplus. */
extern _Thread_local struct thread_state self __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
