/* How far the calling thread's stack may be read. */
#ifndef OFFHEAP_STACK_BOUNDS_H
#define OFFHEAP_STACK_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* Sets *high so that every byte of [sp, *high) is readable and in the thread's own stack.
 * False on a foreign stack: a signal's alternate stack, a coroutine's.
 * Signal-safe, keeps errno; a few ns unless the thread's stack is deeper than ever before. */
bool stack_bounds(uintptr_t sp, uintptr_t *high);

/* Is the word at `address`, a multiple of 8, readable?  Asks the kernel; keeps errno. */
bool word_readable(uintptr_t address);

#endif
