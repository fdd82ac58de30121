/* Call stacks: captured in the hook, interned in the live file, counted. */
#ifndef OFFHEAP_STACKS_H
#define OFFHEAP_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recording.h"
#include "unwind/unwind.h"

/* Private index for `capacity` stacks.  False without memory. */
bool stacks_start(uint64_t capacity);

/* The stack of the caller whose registers these are: the hooked function, native frames,
 * Java frames.  Returns its row, 0 ("no stack", counted as lost) when the tables are full. */
uint32_t stack_capture(enum offheap_hook hook, enum offheap_stack_kind kind, struct unwind_registers *registers);

/* Adds one sampled block of `size` bytes to the stack's counters. */
void stack_count(uint32_t stack, size_t size);

/* Samples taken so far, or `enough` if there are as many. */
uint64_t stacks_samples(uint64_t enough);

#endif
