/*
 * Which blocks are recorded: Poisson sampling over bytes.
 *
 * Each thread counts down an exponentially distributed number of bytes.  The block in
 * which it runs out is sampled, so a block of s bytes is sampled with probability
 * 1 - exp(-s / mean), independently of every other (the exponential has no memory, so a
 * fresh draw after each sample needs no carrying over of the overshoot).
 * In exact mode the countdown stays 0 and every block takes the slow path.
 *
 * Large blocks do not count there, for a program that churns them by the gigabyte would run down
 * everybody's countdown.  Each of them takes s / mean off a countdown of its thread's that is drawn with
 * the mean 1, which comes to the same probability, whatever the mean is at that moment.  The fast path does not
 * tell them apart: the bytes are counted down in pieces that no large block is less than.
 *
 * Under a budget (budget.h) the mean moves.  A thread goes on with the mean its countdown was drawn
 * under, and it is that one's code that its next sample carries, so what a block states is what
 * really applied to it.  The means before the present block decide the present one's, never its own
 * size or fate: 1/p stays unbiased.  So that a thread does not go on for long with a mean from
 * busier times, the countdown is, if the mean has moved, drawn anew after each piece: the rest of
 * an exponential is as long as a whole one.
 *
 * A mean of their own have blocks of each size class, too, an octave wide.  The countdown has the mean of
 * the small class that is sampled most finely.  A block of another class in which it runs out is sampled with
 * the probability that its own mean gives it over the one it has had so far, or else passed over: what nobody is
 * interested in costs no stack.
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
/* What the fast path must not do, for benchmarks/shared_line.py: write what other threads write, too. */
extern _Atomic uint64_t sampler_shared __attribute__((visibility("hidden")));
#define SAMPLER_SHARE() ((void)atomic_fetch_add_explicit(&sampler_shared, 1, memory_order_relaxed))
#else
#define SAMPLER_SHARE() ((void)0)
#endif

/* Blocks from here on are large, and while something records the countdown is at most as much: an Inflater's
 * window is one, what zlib and Java's streams read and write in mostly is not.  A power of two, for no class of
 * sizes has both. */
enum { SAMPLER_LARGE = 32 * 1024 };

/* The fast path: true when a block of `size` bytes is surely not sampled. */
static inline bool sampler_passes(size_t size) {
    SAMPLER_SHARE();
    if (unlikely(size >= self.countdown)) return false;
    self.countdown -= size;
    return true;
}

/* The same of a block that the countdown was too short for: a large one, one at the end of a piece, or of a class
 * that is sampled more rarely.  In exact mode false.  Of a block that is to be sampled it may be asked again. */
bool sampler_passes_on(size_t size);

/* A new recording: every thread draws anew at its next slow path. least 0: exact; else the mean of
 * code 1, and `code` the one to begin with (0: 1). */
void sampler_start(uint64_t least, uint8_t code, uint64_t seed);
/* The mean of an interval code from 1 on where code 1 is `least`: eight codes to the octave. */
uint64_t sampler_mean(uint64_t least, unsigned code);
enum { SAMPLER_CLASSES = 64 };
static inline unsigned sampler_class(size_t size) { return 63 - (unsigned)__builtin_clzl(size | 1); }

/* From their next draws on, threads count down under this code; a small class of a lower one is sampled so, too. */
void sampler_move(uint8_t code);
/* From now on, blocks of a size class are sampled under this code. */
void sampler_move_class(unsigned size_class, uint8_t code);
/* How many countdowns ran out in blocks that were not sampled then, in this recording; of each thread the last few
 * may be missing. */
uint64_t sampler_passed_over(void);
/* Makes the calling thread part of the present recording, if it is not yet. */
void sampler_join(void);
/* Nothing records: threads look again only now and then. */
void sampler_stop(void);

/* The probe has woken up: from now on threads look again only now and then while nothing records. */
void sampler_rest(void);

/* The slow path's decision, once a block: is it sampled?  Draws the next countdown. */
bool sampler_takes(size_t size);

/* Interval code of the block this thread has just sampled (recording.h). */
uint8_t sampler_code(void);
/* 1 / inclusion probability of that block, which has `size` bytes; 1 when exact. */
double sampler_weight(size_t size);

#endif
