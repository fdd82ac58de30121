/*
 * What the frames of a Java stack depend on.  AsyncGetCallTrace takes a microsecond, most of it for checks.  Less is
 * enough to recognise a stack that it has walked once:
 *   - the return address of each frame, and the saved fp if the walk found a frame by it,
 *   - the Method and bcp of an interpreted frame (the bci moves while the pc stays),
 *   - the compile id of a compiled frame's nmethod: the VM frees code, and puts other code in its place,
 *   - the jmethodID of an interpreted frame's Method: the VM unloads classes, and puts others there.
 * Locals and operands change all the time and do not count.
 *
 * The walk trusts no word of a stack, since the native walk may have ended at a wrong place.  It trusts
 *   - the parts of the VM that it never frees: code heaps, the bytes of their segments, and blocks up to where both
 *     end,
 *   - a Method whose copies have shown the id of a call on this stack,
 *   - in a recognised stack, the Methods of its interpreted frames: all words are the same, so the Methods exist.
 */
#ifndef OFFHEAP_JAVA_WALK_H
#define OFFHEAP_JAVA_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"
#include "unwind/unwind.h"

/* AsyncGetCallTrace has no header; this follows HotSpot's prims/forte.cpp. */
struct call_frame {
    jint bci;
    jmethodID method;
};

/* The code that a pc lies in, by compile id; or a Method, by jmethodID. */
struct java_check {
    uintptr_t what;
    uint64_t id;
};

/* What the frames of one stack depend on, beside its words (struct unwind_trace). */
enum { JAVA_CODES = 48, JAVA_METHODS = 48 };
struct java_trace {
    bool complete;
    bool cut; /* AsyncGetCallTrace's frames end before the stack does */
    uint32_t codes, methods;
    struct java_check code[JAVA_CODES], method[JAVA_METHODS];
};

/* Call for a complete VM.  False: its layout is not known, and java_walk always fails. */
bool java_walk_begin(const struct vm_code_layout *layout);

/* Writes down what the `count` frames depend on that AsyncGetCallTrace has just found: the words of the stack behind
 * those that the native walk to `at` read.  False if the walk meets a word that it does not understand, or finds
 * other methods. */
bool java_walk(const struct unwind_registers *at, const struct call_frame *calls, jint count,
               struct unwind_trace *words, struct java_trace *trace);

/* The jmethodID of a Method that certainly exists; 0: it has none. */
uint64_t java_method_id(uintptr_t method);
/* Is `pc` in the interpreter? */
bool java_interprets(uintptr_t pc);

/* Do the codes and the Methods still hold?  Call it when the words of the stack are the same: then the Methods
 * exist. */
bool java_walk_holds(const struct java_check *codes, uint32_t code_count, const struct java_check *methods,
                     uint32_t method_count);

#endif
