/* The hooks report here: blocks and mappings that are made, moved and freed. */
#ifndef OFFHEAP_RECORD_H
#define OFFHEAP_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "recording.h"
#include "store/ranges.h"
#include "unwind/unwind.h"

/* Call after the real allocation, once for each block, since the call counts down the sampler.  Keeps errno. */
void record_block(void *block, size_t size, enum offheap_hook hook, struct unwind_registers *caller);

/* The first forgets a block; call it before the real free.  True: the block was recorded, and `kept` (may be NULL)
 * receives what the second must put back if a realloc fails. */
bool record_forget(void *block, struct offheap_value *kept);
void record_restore(void *block, struct offheap_value kept);

/* Call after the real mmap.  A `birth` other than 0 is inherited: mremap keeps a mapping's age. */
void record_mapping(void *start, size_t length, enum offheap_hook hook, struct unwind_registers *caller,
                    uint32_t birth);
/* Call before the real munmap, or before an mmap over an old range: afterwards the range may be another thread's.
 * `taken`, empty at first, receives what record_moved must put back if the call fails. */
void record_unmapping(void *start, size_t length, struct ranges_taken *taken);
/* Records the parts in `taken`, moved from `from` to `to`; drops what lies beyond `length` bytes from `to`.  Keeps
 * errno. */
void record_moved(const struct ranges_taken *taken, void *from, void *to, size_t length);

#endif
