/*
 * Stacks that were walked a moment ago.  A walk from the same registers that reads the same words finds
 * the same frames, so a memo keeps the words with their addresses and the stack's row: comparing them
 * takes a cycle each, while in a walk every load waits for the one before.
 *
 * Only what a walk needed no more than packed rules for, and that ended at the thread's first frame.
 */
#ifndef OFFHEAP_STACK_MEMO_H
#define OFFHEAP_STACK_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "recording.h"
#include "unwind.h"

enum { MEMO_WAYS = 16, MEMO_LANES = 256 };

struct stack_memo {
    struct unwind_registers from;
    enum offheap_hook hook;
    enum offheap_stack_kind kind;
    uint32_t stack; /* row in STACKS; 0: empty */
    struct unwind_trace trace;
};

/* The memo of the calling thread for a walk from these registers, whatever it holds, or NULL: the thread has
 * none.  Between probe_enter and probe_leave it is the thread's alone. */
struct stack_memo *stack_memo(const struct unwind_registers *from);

/* Is it about this walk, and would the walk find the same again? */
bool stack_memo_holds(const struct stack_memo *memo, const struct unwind_registers *from, enum offheap_hook hook,
                      enum offheap_stack_kind kind);

#endif
