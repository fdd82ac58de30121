/*
 * What the frames of a Java stack depend on.  AsyncGetCallTrace takes a microsecond, most of which goes into
 * doubting what it sees; a stack that it has walked once is recognised by far less:
 *   - each frame's return address, and the saved fp where a frame is found by it,
 *   - of an interpreted frame its Method and bcp (the bci moves while the pc stays),
 *   - of a compiled frame the nmethod's compile id: code is freed, and other code put in its place,
 *   - of an interpreted frame's Method its jmethodID: classes are unloaded, and others put there.
 * Locals and operands, which change all the time, are not looked at.
 *
 * Nothing that stands in a stack is trusted: where the native walk ended may be wrong.  What is:
 *   - what the VM keeps of itself and never frees: code heaps, their segments' bytes and blocks up to where both end,
 *   - a Method that has had, as copies of it told, the id of a call that is on this stack,
 *   - when a stack is recognised, the Methods of its interpreted frames: all its words are the same, so they are there.
 */
#ifndef OFFHEAP_JAVA_WALK_H
#define OFFHEAP_JAVA_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"
#include "unwind/unwind.h"

/* AsyncGetCallTrace has no header; this is HotSpot's prims/forte.cpp. */
struct call_frame {
    jint bci;
    jmethodID method;
};

/* The code that a pc lies in, by compile id; or a Method, by jmethodID. */
struct java_check {
    uintptr_t what;
    uint64_t id;
};

enum { JAVA_CODES = 48, JAVA_METHODS = 48 };
struct java_trace {
    bool complete;
    bool cut; /* AsyncGetCallTrace's frames end before the stack does */
    uint32_t codes, methods;
    struct java_check code[JAVA_CODES], method[JAVA_METHODS];
};

/* For a VM that is complete.  False, and then nothing is ever written down: its layout is not known. */
bool java_walk_begin(const struct vm_code_layout *layout);

/* Writes down what the `count` frames that AsyncGetCallTrace has just found depend on: the words of the stack
 * behind those that the native walk to `at` read.  False if the walk meets something that is not
 * understood, or finds other methods. */
bool java_walk(const struct unwind_registers *at, const struct call_frame *calls, jint count,
               struct unwind_trace *words, struct java_trace *trace);

/* The jmethodID of a Method that is there for certain; 0: none. */
uint64_t java_method_id(uintptr_t method);
/* Does the interpreter run there? */
bool java_interprets(uintptr_t pc);

/* While the words are the same: is everything else? */
bool java_walk_holds(const struct java_check *codes, uint32_t code_count, const struct java_check *methods,
                     uint32_t method_count);

#endif
