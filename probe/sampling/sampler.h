/*
 * Which blocks are recorded: Poisson sampling over bytes.
 *
 * Each thread counts down an exponentially distributed number of bytes.  The block in which the countdown ends is
 * sampled, so a block of s bytes is sampled with probability 1 - exp(-s / mean), independently of every other block.
 * The exponential has no memory, so a fresh draw after each sample needs no carrying over of the overshoot.  In exact
 * mode the countdown stays 0 and every block takes the slow path.
 *
 * Large blocks have a separate countdown, since a program that churns gigabytes of them would run down the countdown
 * of all blocks.  A large block takes s / mean off a countdown that is drawn with the mean 1.  This gives the same
 * probability for any present mean.  The fast path does not tell large blocks apart: bytes are counted down in pieces,
 * and no large block is smaller than a piece.
 *
 * Under a budget (budget.h) the mean moves.  A thread keeps the mean that its countdown was drawn with, and its next
 * sample carries the code of that mean, so a block states the mean that applied to it.  Only the means before a block
 * decide its mean, never its size or fate, so 1/p stays unbiased.  When the mean has moved, a thread draws the
 * countdown anew after each piece, so that it does not keep a mean from busier times for long: the rest of an
 * exponential is as long as a whole one.
 *
 * Each size class (one octave) has its own mean interval.  The countdown has the mean of the small class that is
 * sampled most finely.  When it ends in a block of another class, the block is sampled with the ratio of the two
 * probabilities, and otherwise passed over.  A block that is passed over costs no stack walk.
 */
#ifndef OFFHEAP_SAMPLER_H
#define OFFHEAP_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guard/thread_state.h"
#include "platform/compiler.h"

#ifdef SHARE_A_LINE
/* benchmarks/cost/probe_builds.py measures what the fast path must not do: write to a cache line that threads share. */
extern _Atomic uint64_t sampler_shared __attribute__((visibility("hidden")));
#define SAMPLER_SHARE() ((void)atomic_fetch_add_explicit(&sampler_shared, 1, memory_order_relaxed))
#else
#define SAMPLER_SHARE() ((void)0)
#endif

/* Blocks of at least this size are large, and a countdown of a recording is at most this.  An Inflater's window is
 * large; most buffers of zlib and of Java's streams are not.  A power of two, so that no size class has both kinds. */
enum { SAMPLER_LARGE = 32 * 1024 };

/* The fast path: true when a block of `size` bytes is surely not sampled. */
static inline bool sampler_passes(size_t size) {
    SAMPLER_SHARE();
    if (unlikely(size >= self.countdown)) return false;
    self.countdown -= size;
    return true;
}

/* The same question for a block that the countdown is too short for: a large block, a block at the end of a piece,
 * or one of a class that is sampled more rarely.  False in exact mode.  After false the caller may ask again for the
 * same block. */
bool sampler_passes_on(size_t size);

/* Begins a recording: every thread draws anew at its next slow path.  `least` is the mean of code 1, or 0 for exact;
 * `code` is the code to begin with, 0 for code 1. */
void sampler_start(uint64_t least, uint8_t code, uint64_t seed);
/* The mean of an interval code, from 1 on; code 1 has the mean `least`, and eight codes make an octave. */
uint64_t sampler_mean(uint64_t least, unsigned code);
/* The size class of a block: the octave of its size. */
enum { SAMPLER_CLASSES = 64 };
static inline unsigned sampler_class(size_t size) { return 63 - (unsigned)__builtin_clzl(size | 1); }

/* From their next draws on, threads count down under this code; a small class with a lower code is sampled under
 * this code as well. */
void sampler_move(uint8_t code);
/* From now on, blocks of a size class are sampled under this code. */
void sampler_move_class(unsigned size_class, uint8_t code);
/* How many countdowns of this recording ended in blocks that were passed over; the last few of each thread may be
 * missing. */
uint64_t sampler_passed_over(void);
/* Makes the calling thread a part of the present recording, once. */
void sampler_join(void);
/* Ends the recording: from now on threads take the slow path only now and then. */
void sampler_stop(void);

/* The probe has woken up: from now on, while nothing records, threads take the slow path only now and then. */
void sampler_rest(void);

/* The decision of the slow path: is this block sampled?  Call it once for each block: it draws the next countdown when
 * one ends. */
bool sampler_takes(size_t size);

/* Interval code of the block this thread has just sampled (recording.h). */
uint8_t sampler_code(void);
/* 1 / inclusion probability of that block, which has `size` bytes; 1 when exact. */
double sampler_weight(size_t size);
/* The same for a block of this recording that was sampled under a code of sampler_code(). */
double sampler_weight_under(size_t size, uint8_t code);

#endif
