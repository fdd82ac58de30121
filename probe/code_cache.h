/* Which nmethod a pc lies in: HotSpot's CodeHeap::find_start, by its own tables (vm_layout.h). */
#ifndef OFFHEAP_CODE_CACHE_H
#define OFFHEAP_CODE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "vm_layout.h"

/* The code heaps of a VM that is complete.  False if there are none that can be read. */
bool code_cache_find(const struct vm_code_layout *layout);

struct code {
    uintptr_t nmethod; /* 0: the pc is in none */
    uint32_t id;       /* its compile id, which no other ever has */
};

/* No lock, as AsyncGetCallTrace: the code that a thread is about to return to is not freed meanwhile. */
struct code code_at(uintptr_t pc);

/* Of an nmethod. */
uint32_t code_frame_bytes(uintptr_t nmethod);
uintptr_t code_method(uintptr_t nmethod); /* Method* */
/* Does a return to `pc` deoptimize?  Then what the frame was executing stands elsewhere in it. */
bool code_deoptimizes(uintptr_t nmethod, uintptr_t pc);

#endif
