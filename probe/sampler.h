/*
 * Which blocks are recorded: Poisson sampling over bytes.
 *
 * Each thread counts down an exponentially distributed number of bytes.  The block in
 * which it runs out is sampled, so a block of s bytes is sampled with probability
 * 1 - exp(-s / mean), independently of every other (the exponential has no memory, so a
 * fresh draw after each sample needs no carrying over of the overshoot).
 * In exact mode the countdown stays 0 and every block takes the slow path.
 */
#ifndef OFFHEAP_SAMPLER_H
#define OFFHEAP_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* initial-exec: one fs-relative load.  Global-dynamic costs 1.5 ns a call, and its first
 * use in a thread allocates.  Loaded by dlopen it takes its 40 bytes from glibc's static TLS surplus. */
struct sampler {
    uint64_t countdown; /* 0: take the slow path */
    uint64_t random;
    uint32_t session;   /* of the recording the countdown was drawn for */
    uint32_t thread_session; /* of the recording `thread` belongs to */
    uint16_t thread;    /* row in THREADS, 0: not asked yet */
    uint8_t inside;     /* between probe_enter and probe_leave */
    uint8_t name_age;   /* rows asked for since the thread's name was first asked for (threads.c) */
};
extern _Thread_local struct sampler sampler __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The fast path: true when a block of `size` bytes is surely not sampled. */
static inline bool sampler_passes(size_t size) {
    if (__builtin_expect(size >= sampler.countdown, 0)) return false;
    sampler.countdown -= size;
    return true;
}

/* A new recording: every thread draws anew at its next slow path. interval 0: exact. */
void sampler_start(uint64_t interval, uint64_t seed);
/* Makes the calling thread part of the present recording, if it is not yet. */
void sampler_join(void);
/* Nothing records: threads look again only now and then. */
void sampler_stop(void);

/* The probe has woken up: from now on threads look again only now and then while nothing records. */
void sampler_rest(void);

/* The slow path's decision, once a block: is it sampled?  Draws the next countdown. */
bool sampler_takes(size_t size);

/* Interval code of the blocks sampled now (recording.h). */
uint8_t sampler_code(void);
/* 1 / inclusion probability of a block, 1 when exact. */
double sampler_weight(size_t size);

#endif
