/*
 * Stacks that were walked a moment ago.  A walk from the same registers that reads the same words finds
 * the same frames, so a memo keeps the words with their addresses and the stack's row: comparing them
 * takes a cycle each, while in a walk every load waits for the one before.
 *
 * Only what a walk needed no more than packed rules for, and that ended at the thread's first frame, or
 * in Java frames that java_walk.h knows the conditions of.
 */
#ifndef OFFHEAP_STACK_MEMO_H
#define OFFHEAP_STACK_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/java_walk.h"
#include "recording.h"
#include "unwind/unwind.h"

/* Memory that memos have by now: it stays with them. */
uint64_t stack_memo_bytes(void);

/* Between guard_enter and guard_leave a thread has its memos alone.  0: none holds.
 * `java`: the stack has Java frames. */
uint32_t stack_memo_find(const struct unwind_registers *from, enum offheap_hook hook, enum offheap_stack_kind kind,
                         bool *java);

/* Room for that many frames, kept for the calling thread between guard_enter and guard_leave: its own stack may be
 * small.  NULL: there is none. */
enum {
    NATIVE_FRAMES = 160,
    JAVA_FRAMES = 256,
    STACK_FRAMES = 1 + NATIVE_FRAMES + 1 + JAVA_FRAMES, /* the hook, and a gap */
};
uint64_t *stack_memo_frames(void);

/* A walk that may become one. */
struct stack_memo_draft {
    struct unwind_registers from;
    struct unwind_trace words;
    struct java_trace *java;
};

/* False: the thread has no memos.  Then `draft` is not touched. */
bool stack_memo_begin(struct stack_memo_draft *draft, const struct unwind_registers *from);
/* Not for a walk whose words were more than there was room for. */
void stack_memo_keep(const struct stack_memo_draft *draft, enum offheap_hook hook, enum offheap_stack_kind kind,
                     uint32_t stack, bool java);

#endif
