/*
 * What a Java stack's frames depend on.  AsyncGetCallTrace takes a microsecond, most of which goes into
 * doubting what it sees; a stack that it has walked once is recognised by far less:
 *   - where the thread's frame anchor points,
 *   - each frame's return address, and the saved fp where a frame is found by it,
 *   - of an interpreted frame its Method and bcp (the bci moves while the pc stays),
 *   - of a compiled frame the nmethod's compile id: code is freed, and other code put in its place,
 *   - of an interpreted frame's Method its jmethodID: classes are unloaded, and others put there.
 * Locals and operands, which change all the time, are not looked at.
 */
#ifndef OFFHEAP_JAVA_WALK_H
#define OFFHEAP_JAVA_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvmti.h"
#include "vm_layout.h"

/* AsyncGetCallTrace has no header; this is HotSpot's prims/forte.cpp. */
struct call_frame {
    jint bci;
    jmethodID method;
};

/* A thread's anchor, as it was found. */
struct java_top {
    const void *env;
    uintptr_t sp, pc, fp;
    int state;
};

/* `what`: an address, and above it the kind of check. */
struct java_check {
    uint64_t what, is;
};

struct java_trace {
    struct java_top top;
    uint32_t count, room;
    struct java_check *checks;
};

/* For a VM that is complete.  False, and then nothing is ever written down: its layout is not known. */
bool java_walk_begin(const struct vm_code_layout *layout);

/* Writes down, from trace->top on, what the `count` frames that AsyncGetCallTrace has just found depend
 * on.  False if the walk meets something that is not understood, or finds other methods. */
bool java_walk(struct java_trace *trace, const struct call_frame *calls, jint count);

/* By the same thread, whose top is the same: are they still the same? */
bool java_walk_holds(const struct java_check *checks, uint32_t count);

#endif
