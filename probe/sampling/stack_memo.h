/*
 * Memos of recent walks.  A walk from the same registers that reads the same words finds the same frames.  So a memo
 * keeps the words with their addresses and the stack's row.  The comparison takes a cycle for each word, while in a
 * walk every load waits for the one before.
 *
 * A walk becomes a memo if packed rules were enough for it, and if it ended at the thread's first frame or in Java
 * frames whose conditions java_walk.h knows.
 */
#ifndef OFFHEAP_STACK_MEMO_H
#define OFFHEAP_STACK_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/java_walk.h"
#include "recording.h"
#include "unwind/unwind.h"

/* Bytes that memos have taken; memos never give memory back. */
uint64_t stack_memo_bytes(void);

/* Returns the row of the stack of a memo that holds, 0 if there is none.  `java`: the stack has Java frames.  Call it
 * between guard_enter and guard_leave, where no other thread uses the thread's memos. */
uint32_t stack_memo_find(const struct unwind_registers *from, enum offheap_hook hook, enum offheap_stack_kind kind,
                         bool *java);

/* Room for STACK_FRAMES frames, for the calling thread between guard_enter and guard_leave: the thread's stack may be
 * small.  NULL: there is none. */
enum {
    NATIVE_FRAMES = 160,
    JAVA_FRAMES = 256,
    STACK_FRAMES = 1 + NATIVE_FRAMES + 1 + JAVA_FRAMES, /* the hook, and a gap */
};
uint64_t *stack_memo_frames(void);

/* A walk that may become a memo. */
struct stack_memo_draft {
    struct unwind_registers from;
    struct unwind_trace words;
    struct java_trace *java;
};

/* Begins a draft for a walk from these registers.  False: the thread has no memos, and `draft` is not touched. */
bool stack_memo_begin(struct stack_memo_draft *draft, const struct unwind_registers *from);
/* Makes a memo of the draft, for the row `stack`.  Do not call it for a walk that read more words than the draft has
 * room for. */
void stack_memo_keep(const struct stack_memo_draft *draft, enum offheap_hook hook, enum offheap_stack_kind kind,
                     uint32_t stack, bool java);

#endif
