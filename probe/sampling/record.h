/* What the hooks tell the recording: a block or a mapping came, moved or went. */
#ifndef OFFHEAP_RECORD_H
#define OFFHEAP_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "recording.h"
#include "store/ranges.h"
#include "unwind/unwind.h"

/* After the real allocation; keeps errno.  Decides by the sampler, so call it once a block. */
void record_block(void *block, size_t size, enum offheap_hook hook, struct unwind_registers *caller);

/* Before the real free.  `kept` receives what a failed realloc must put back; may be NULL. */
bool record_forget(void *block, struct offheap_value *kept);
void record_restore(void *block, struct offheap_value kept);

/* After the real mmap.  `birth`, if not 0, is inherited (mremap keeps a mapping's age). */
void record_mapping(void *start, size_t length, enum offheap_hook hook, struct unwind_registers *caller,
                    uint32_t birth);
/* Before the real munmap, or an mmap over an old range: afterwards it may be another thread's.  `taken`, 0 at first,
 * receives what record_moved must put back if it fails. */
void record_unmapping(void *start, size_t length, struct ranges_taken *taken);
/* Files what was taken at `from`, less than `length` bytes from there, under where it is now.  Keeps errno. */
void record_moved(const struct ranges_taken *taken, void *from, void *to, size_t length);

#endif
