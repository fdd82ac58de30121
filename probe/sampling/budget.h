/*
 * The CPU that sampling may take.  It is measured, and the mean intervals move so that it stays below the budget, and
 * no further.  The first walk of each stack is granted on top, once.
 *
 * Each size class (sampler.h: one octave) has its own mean interval.  A class that can be sampled finely is; the others
 * share what is left of the budget.  So a few megabytes of small blocks that stay are seen beside gigabytes of large
 * blocks that come and go, of which more samples would tell nothing new.
 *
 * Two readings of the monotonic clock time every sample (vdso, some 20 ns each; a sample takes 0.1-2 us).  Added to
 * that are half of each reading, the way into the probe and out, and the free of the block; one free in seventeen is
 * timed.  Ten times a second at most, a thread that comes by compares the sum with the CPU time of the process; the
 * JVM's agent thread comes by once a second.  None of this is on the fast path.
 */
#ifndef OFFHEAP_BUDGET_H
#define OFFHEAP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "recording.h"

/* Writes the budget, and the intervals that may come, into the header of a new live file. */
void budget_describe(struct offheap_header *header, const struct options *options);
/* Call for the mapped live file, before sampler_start. */
void budget_start(void);

/* Call the next five between guard_enter and guard_leave, or guard_enter_nested and guard_leave_nested for a free. */

/* The time before a sample is decided on, 0 without a budget. */
uint64_t budget_clock(void);
/* Call after the sample, of a block of `size` bytes. */
void budget_spend(uint64_t began, size_t size);
/* The same around the look-up of a block that is freed; mostly 0. */
uint64_t budget_clock_of_free(void);
void budget_spend_on_free(uint64_t began, bool found);
/* Moves the intervals when it is time to.  Call it after any work that is not on the fast path. */
void budget_look(void);

/* At the end, while the live file is mapped: brings its figures up to date. */
void budget_settle(void);

#endif
