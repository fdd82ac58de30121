/* The bell that wakes the agent thread.  Callers need not know the agent. */
#ifndef OFFHEAP_BELL_H
#define OFFHEAP_BELL_H

#include <stdint.h>

/* Wakes the agent thread (a futex; signal-safe, keeps errno). */
void bell_ring(void);

/* For the agent thread.  The first returns the number of rings so far; the second sleeps while that number is `rung`,
 * `milliseconds` at most. */
uint32_t bell_rung(void);
void bell_wait(uint32_t rung, int milliseconds);

#endif
