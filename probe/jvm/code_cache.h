/* Which nmethod a pc lies in: HotSpot's CodeHeap::find_start, by its own tables (vm_layout.h). */
#ifndef OFFHEAP_CODE_CACHE_H
#define OFFHEAP_CODE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/vm_layout.h"

/* The code heaps of a VM that is complete.  False if there are none that can be read. */
bool code_cache_find(const struct vm_code_layout *layout);

struct code {
    uintptr_t blob; /* 0: the pc is in none that is known */
    bool nmethod;   /* else a stub */
    uint64_t id;    /* an nmethod's compile id, which no other ever has; of a stub what its frame is walked by */
};

/* No lock, as AsyncGetCallTrace: the code that a thread is about to return to is not freed meanwhile. */
struct code code_at(uintptr_t pc);

/* 0: the frame has no fixed size. */
uint32_t code_frame_bytes(uintptr_t blob);

/* What is known of an nmethod. */
/* Is it in use?  Then its methods are there, and its records: all of it goes before its classes do.  One that is not is
 * on no stack, but where a native walk ended at a wrong word. */
bool code_alive(uintptr_t nmethod);
bool code_is_native(uintptr_t nmethod);   /* the wrapper of a native method, which has no debug records */
uintptr_t code_method(uintptr_t nmethod); /* Method* */
/* Does a return to `pc` deoptimize?  Then what the frame was executing stands elsewhere in it. */
bool code_deoptimizes(uintptr_t nmethod, uintptr_t pc);

#endif
