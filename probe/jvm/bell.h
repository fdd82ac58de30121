/* The bell that wakes the agent thread.  Whoever rings it need not know the agent. */
#ifndef OFFHEAP_BELL_H
#define OFFHEAP_BELL_H

#include <stdint.h>

/* Wakes the agent thread (a futex; signal-safe, keeps errno). */
void bell_ring(void);

/* For the agent thread: how often the bell has rung; and sleep until it rings once more, for so many milliseconds at
 * most. */
uint32_t bell_rung(void);
void bell_wait(uint32_t rung, int milliseconds);

#endif
