/*
 * The CPU that sampling may take: how much it takes is measured, and the mean intervals move so that
 * it stays below the budget, and no further.  What stacks take when they are met first is granted once.
 *
 * Blocks of each size class (sampler.h, an octave) have an interval of their own.  Classes that could all
 * be sampled finely are; what is left of the budget the others share alike.  So a few megabytes of small
 * blocks that stay are seen beside gigabytes of large ones that come and go: of those more samples would
 * tell nothing new.
 *
 * Every sample is timed by two readings of the monotonic clock (vdso, some 20 ns each of the 0.1-2 us it
 * takes).  What lies outside of them counts, too: half of each reading, coming in and going out, and the free
 * of the block, of which one in seventeen is timed.  Ten times a second at most, whichever thread comes by sets
 * that against the CPU time of the process; the JVM's agent thread comes by once a second.  Nothing of it is on
 * the fast path.
 */
#ifndef OFFHEAP_BUDGET_H
#define OFFHEAP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "recording.h"

/* Into the header of a new live file: the budget, and the intervals that may come. */
void budget_describe(struct offheap_header *header, const struct options *options);
/* For the mapped live file; before sampler_start. */
void budget_start(void);

/* The following five: between guard_enter and guard_leave, or as much for a free. */

/* Before a sample is decided on: the time, 0 without a budget. */
uint64_t budget_clock(void);
/* After it; of a block of `size` bytes. */
void budget_spend(uint64_t began, size_t size);
/* The same around a block's being looked for when it is freed; mostly 0. */
uint64_t budget_clock_of_free(void);
void budget_spend_on_free(uint64_t began, bool found);
/* Moves the interval when it is time to; after whatever was not on the fast path. */
void budget_look(void);

/* At the end, while the live file is mapped: brings its accounts up to date. */
void budget_settle(void);

#endif
