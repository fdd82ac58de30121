/* How much memory the probe takes, and how much it may take. */
#ifndef OFFHEAP_MEMORY_BOUND_H
#define OFFHEAP_MEMORY_BOUND_H

#include <stdbool.h>
#include <stdint.h>

/* Begins a recording.  In bytes: what the probe may take, the size that the live table may grow to (0: it does not
 * grow), and what the probe takes at the start. */
void memory_begin(uint64_t bound, uint64_t most, uint64_t taken);

/* May the probe take `bytes` more?  True: counts them as taken. */
bool memory_grant(uint64_t bytes);
/* The same for the live table, which may take more than the bound at the start leaves.  memory_return takes the grant
 * back. */
bool memory_grant_growth(uint64_t bytes);
void memory_return(uint64_t bytes);

uint64_t memory_bound(void);      /* bytes that the probe may take now */
uint64_t memory_taken(void);      /* bytes that the probe has taken */
uint64_t memory_in_all(void);     /* the most bytes that the probe may take in this recording */
uint64_t memory_for_growth(void); /* what the live table may still grow by */

/* After PROBE_NO_MEMORY: bytes that the probe may take, and the least that it needs. */
void memory_refused(uint64_t *bound, uint64_t *least);

#endif
