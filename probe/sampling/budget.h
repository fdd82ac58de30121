/*
 * The CPU that sampling may take.  The probe measures the CPU that sampling takes, and moves the mean intervals so that
 * this CPU stays just below the budget.  The first walk of each stack is granted in addition.
 *
 * Each size class (sampler.h: one octave) has its own mean interval.  Cheap classes are sampled finely; the others
 * share the rest of the budget.  So a few megabytes of small blocks that stay get samples beside gigabytes of large
 * blocks that come and go, where more samples would tell nothing new.
 *
 * Two readings of the monotonic clock time every sample (vdso, some 20 ns each; a sample takes 0.1-2 us).  The probe
 * adds half of each reading, the way in and out, and the free of the block; it times one free in seventeen.  At most
 * ten times a second a thread in the probe compares the sum with the CPU time of the process; the agent thread does so
 * once a second.  None of this is on the fast path.
 */
#ifndef OFFHEAP_BUDGET_H
#define OFFHEAP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "recording.h"

/* Writes the budget, and the intervals that it may choose, into the header of a new live file. */
void budget_describe(struct offheap_header *header, const struct options *options);
/* Begins a recording.  Call it when the live file is mapped, before sampler_start. */
void budget_start(void);

/* Call the next five between guard_enter and guard_leave, or guard_enter_nested and guard_leave_nested for a free. */

/* The time before the decision on a sample, 0 without a budget. */
uint64_t budget_clock(void);
/* Charges the sample of a block of `size` bytes that began at `began`.  Call it after the sample. */
void budget_spend(uint64_t began, size_t size);
/* The same for the lookup of a freed block.  The clock is mostly 0: then the lookup is not timed. */
uint64_t budget_clock_of_free(void);
void budget_spend_on_free(uint64_t began, bool found);
/* Moves the intervals when an adjustment is due.  Call it after any work that is not on the fast path. */
void budget_adjust(void);

/* CPU in ns that samples of Java objects may take of the last `passed` ns, in which the process used `used` ns.  If the
 * recording has no budget, the default one counts. */
double budget_of_objects(uint64_t used, uint64_t passed);

/* Brings the figures in the live file up to date.  Call it at the end, while the file is mapped. */
void budget_settle(void);

#endif
