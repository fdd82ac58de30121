/* How much memory the probe has taken, and how much it may take. */
#ifndef OFFHEAP_MEMORY_BOUND_H
#define OFFHEAP_MEMORY_BOUND_H

#include <stdbool.h>
#include <stdint.h>

/* A recording begins.  All in bytes: what the probe may take, the size that the live table may grow to (0: it does
 * not grow), and what is taken at the start. */
void memory_begin(uint64_t bound, uint64_t most, uint64_t taken);

/* May the probe take so many more bytes?  True: they are counted as taken. */
bool memory_grant(uint64_t bytes);
/* The same for the live table, which may take more than was left for it when the recording began; and its reverse. */
bool memory_grant_growth(uint64_t bytes);
void memory_return(uint64_t bytes);

uint64_t memory_bound(void);
uint64_t memory_taken(void);
uint64_t memory_in_all(void);     /* the most that the recording can come to take */
uint64_t memory_for_growth(void); /* what the live table may still grow by */

/* After PROBE_NO_MEMORY: bytes that the probe may take, and the least that it needs. */
void memory_refused(uint64_t *bound, uint64_t *least);

#endif
