/* Call stacks in the live file: interned and counted. */
#ifndef OFFHEAP_STACKS_H
#define OFFHEAP_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recording.h"

/* Makes the private index for `capacity` stacks.  False without memory. */
bool stacks_start(uint64_t capacity);

/* Returns the row of these frames, innermost first; `flags` are of enum offheap_stack_flags.  0 ("no stack", counted
 * as lost) when the tables are full.  Signal-safe. */
uint32_t stack_intern(const uint64_t *frames, size_t depth, enum offheap_stack_kind kind, uint8_t flags);

/* Adds one sampled block of `size` bytes to the stack's counters.  `weight`: 1 / its inclusion probability, which an
 * exact recording does not use. */
void stack_count(uint32_t stack, size_t size, double weight);

/* The same for a Java object, which is a sample even in an exact recording: `weight` always counts. */
void stack_count_sampled(uint32_t stack, size_t size, double weight);

/* Samples taken so far, or `enough` if there are as many. */
uint64_t stacks_samples(uint64_t enough);

#endif
