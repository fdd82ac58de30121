#define _GNU_SOURCE
#include "sampling/stack_capture.h"

#include <stdbool.h>
#include <stddef.h>

#include "jvm/java_frames.h"
#include "sampling/stack_memo.h"
#include "store/frame_encoding.h"
#include "store/live_file.h"
#include "store/stacks.h"

static __attribute__((noinline)) uint32_t walk_into(uint64_t *frames, enum offheap_hook hook,
                                                    enum offheap_stack_kind kind, struct unwind_registers *registers,
                                                    bool memo) {
    struct stack_memo_draft draft;
    bool keep = memo && stack_memo_begin(&draft, registers);
    uint8_t flags = 0;
    size_t depth = 0;
    frames[depth++] = frame_hook(hook);
    enum unwind_end end;
    depth += unwind_traced(registers, frames + depth, NATIVE_FRAMES, &end, keep ? &draft.words : NULL);
    keep = keep && draft.words.count <= draft.words.room;
    bool joined = false;
    switch (end) {
    case UNWIND_ROOT: break;
    case UNWIND_TRUNCATED:
        flags |= OFFHEAP_STACK_TRUNCATED;
        live_lose(OFFHEAP_TRUNCATED);
        keep = false;
        break;
    case UNWIND_LOST:
        flags |= OFFHEAP_STACK_INCOMPLETE;
        live_lose(OFFHEAP_LOST_UNWINDS);
        frames[depth++] = frame_gap(OFFHEAP_GAP_UNWINDER);
        keep = false;
        break;
    case UNWIND_NO_MODULE: {
        if (keep) draft.java->complete = false;
        size_t java = java_frames(registers, frames + depth, JAVA_FRAMES, &joined, keep ? &draft.words : NULL,
                                  keep ? draft.java : NULL);
        if (java == 0) {
            frames[depth++] = frame_address(registers->pc);
            flags |= OFFHEAP_STACK_INCOMPLETE;
        } else if (java == JAVA_FRAMES) {
            flags |= OFFHEAP_STACK_TRUNCATED;
            live_lose(OFFHEAP_TRUNCATED);
        }
        if (java && !joined) flags |= OFFHEAP_STACK_INCOMPLETE;
        depth += java;
        keep = keep && draft.java->complete;
        break;
    }
    }
    uint32_t stack = stack_intern(frames, depth, kind, flags);
    if (keep) stack_memo_keep(&draft, hook, kind, stack, joined);
    return stack;
}

/* Out of line: takes 3 KiB of a stack that may have only 16 KiB (PTHREAD_STACK_MIN). */
static __attribute__((noinline)) uint32_t walk_on_stack(enum offheap_hook hook, enum offheap_stack_kind kind,
                                                        struct unwind_registers *registers) {
    uint64_t frames[STACK_FRAMES];
    return walk_into(frames, hook, kind, registers, false);
}

static uint32_t walk_and_intern(enum offheap_hook hook, enum offheap_stack_kind kind,
                                struct unwind_registers *registers, bool memo) {
    uint64_t *frames = stack_memo_frames();
    return frames ? walk_into(frames, hook, kind, registers, memo) : walk_on_stack(hook, kind, registers);
}

#ifdef VERIFY_MEMOS
#include <time.h>

/* A build for tests compares every memo that is found with the result of a walk.  The last words of header.reserved
 * count stacks, found memos, memos that cannot be compared, and memos that differ. */
static uint64_t *verify_counts(void) { return live->reserved + sizeof live->reserved / sizeof *live->reserved - 4; }

/* A thread in native code keeps running while the VM redefines the methods below it, which takes milliseconds.  A walk
 * during that time finds methods without a name, and after it the old methods are gone.  A memo is wrong if it still
 * holds after that time and no walk agrees. */
static bool still_differs(uint32_t stack, enum offheap_hook hook, enum offheap_stack_kind kind,
                          const struct unwind_registers *from) {
    bool java;
    for (int again = 0; again < 100; again++) {
        struct unwind_registers registers = *from;
        if (again) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        if (walk_and_intern(hook, kind, &registers, false) == stack) return false;
        if (stack_memo_find(from, hook, kind, &java) != stack) return false;
    }
    return true;
}

static uint32_t verified(uint32_t stack, enum offheap_hook hook, enum offheap_stack_kind kind,
                         struct unwind_registers *registers) {
    struct unwind_registers from = *registers;
    uint32_t walked = walk_and_intern(hook, kind, registers, false);
    const struct offheap_stack *rows = LIVE_ROWS(struct offheap_stack, OFFHEAP_STACKS);
    uint64_t *counts = verify_counts();
    __atomic_fetch_add(&counts[1], 1, __ATOMIC_RELAXED);
    if (rows[walked].flags & OFFHEAP_STACK_INCOMPLETE) __atomic_fetch_add(&counts[2], 1, __ATOMIC_RELAXED);
    else if (walked != stack) {
        bool wrong = still_differs(stack, hook, kind, &from);
        __atomic_fetch_add(&counts[wrong ? 3 : 2], 1, __ATOMIC_RELAXED);
    }
    return walked;
}
#else
#define verified(stack, hook, kind, registers) (stack)
#endif

uint32_t stack_capture(enum offheap_hook hook, enum offheap_stack_kind kind, struct unwind_registers *registers) {
#ifdef VERIFY_MEMOS
    __atomic_fetch_add(verify_counts(), 1, __ATOMIC_RELAXED);
#endif
    bool java;
    uint32_t stack = stack_memo_find(registers, hook, kind, &java);
    if (!stack) return walk_and_intern(hook, kind, registers, true);
    if (java) live_lose(OFFHEAP_JAVA_JOINED);
    return verified(stack, hook, kind, registers);
}
