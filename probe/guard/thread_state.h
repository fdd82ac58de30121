/*
 * The probe's state of each thread, in one variable.  The file named above a field owns the field.
 */
#ifndef OFFHEAP_THREAD_STATE_H
#define OFFHEAP_THREAD_STATE_H

#include <stdint.h>

/* Values of thread_state.inside. */
enum {
    THREAD_OUTSIDE,
    THREAD_INSIDE,    /* between guard_enter and guard_leave */
    THREAD_OWN_DOING, /* inside; allocations are neither recorded nor counted as lost */
};

struct thread_state {
    /* sampling/sampler.c */
    uint64_t countdown; /* 0: take the slow path */
    uint64_t random;
    uint64_t beyond;  /* bytes of the countdown behind its present piece */
    double chance;    /* in (0, 1], for class_takes: decides about the block that ends the countdown */
    double large;     /* the countdown of large blocks */
    uint32_t session; /* the recording that the countdown was drawn for */

    /* store/threads.c */
    uint32_t thread_recording; /* the recording that `thread` belongs to */
    uint16_t thread;           /* row in THREADS, 0: not known yet */

    /* guard/guard.c; jvm/events.c and jvm/method_names.c mark their own allocations */
    uint8_t inside;

    /* store/threads.c */
    uint8_t name_age; /* blocks since the thread's name was first looked up */

    /* sampling/sampler.c */
    uint8_t code;        /* interval code under which the countdown was drawn */
    uint8_t taken;       /* interval code of the latest sample */
    uint8_t passed_over; /* countdowns that sampler_passed_over() does not count yet */

    /* sampling/budget.c */
    uint8_t frees; /* frees until the next timed one */

    /* java_heap/object_interval.c */
    uint8_t object_recording; /* the recording, modulo 256, that `object_code` belongs to */
    uint8_t object_code;      /* interval code under which HotSpot drew the thread's countdown */
};

/* The calling thread's state.  initial-exec: the fast path needs one fs-relative load.  Global-dynamic costs 1.5 ns
 * a call, and its first use in a thread allocates.  For a library loaded by dlopen these 64 bytes come from glibc's
 * static TLS surplus. */
extern _Thread_local struct thread_state self __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
