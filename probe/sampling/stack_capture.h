/* The stack of a hook's caller: native frames, then Java frames, or a memo of both. */
#ifndef OFFHEAP_STACK_CAPTURE_H
#define OFFHEAP_STACK_CAPTURE_H

#include <stdint.h>

#include "recording.h"
#include "unwind/unwind.h"

/* The stack of the caller whose registers these are: the hooked function, native frames,
 * Java frames.  Returns its row, 0 ("no stack", counted as lost) when the tables are full. */
uint32_t stack_capture(enum offheap_hook hook, enum offheap_stack_kind kind, struct unwind_registers *registers);

#endif
