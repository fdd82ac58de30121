/* The nmethod that a pc lies in: HotSpot's CodeHeap::find_start, by its own tables (vm_layout.h). */
#ifndef OFFHEAP_CODE_CACHE_H
#define OFFHEAP_CODE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/vm_layout.h"

/* Reads the code heaps of a VM that is complete.  False if none of them can be read. */
bool code_cache_find(const struct vm_code_layout *layout);

/* The code that a pc lies in. */
struct code {
    uintptr_t blob; /* 0: the pc is in no known code */
    bool nmethod;   /* else a stub */
    uint64_t id;    /* an nmethod's compile id, never used again; a stub's tells how to walk its frame */
};

/* The code at `pc`.  Takes no lock, like AsyncGetCallTrace: the VM does not free code that a thread is about to return
 * to. */
struct code code_at(uintptr_t pc);

/* The size of a frame of this code.  0: the frame has no fixed size. */
uint32_t code_frame_bytes(uintptr_t blob);

/* The next four are about an nmethod. */
/* Is the nmethod in use?  Then its methods and records exist: the VM frees them before it unloads their classes.  An
 * nmethod that is not in use is on no stack, but a native walk that ends at a wrong word may find one. */
bool code_alive(uintptr_t nmethod);
bool code_is_native(uintptr_t nmethod);   /* the wrapper of a native method, which has no debug records */
uintptr_t code_method(uintptr_t nmethod); /* Method* */
/* Does a return to `pc` deoptimize?  Then another word of the frame holds the pc of the frame's code. */
bool code_deoptimizes(uintptr_t nmethod, uintptr_t pc);

#endif
