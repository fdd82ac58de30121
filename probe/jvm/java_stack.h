/*
 * Java frames by the VM's own tables, where AsyncGetCallTrace fails:
 *   - it finds no Java frame behind a stub that allocates (-4), behind an event of JVMTI, and during a garbage
 *     collection (-2);
 *   - if the innermost Java frame is compiled and called a stub, it uses the debug record behind the call (scopes.h).
 * A hook runs on the thread itself, at a call: each frame's pc is a return address, and has its own record.
 */
#ifndef OFFHEAP_JAVA_STACK_H
#define OFFHEAP_JAVA_STACK_H

#include <stdbool.h>

#include "jvm/java_walk.h"
#include "unwind/unwind.h"

/* Call for a complete VM, after java_walk_begin.  Without this call the next two find and correct nothing. */
void java_stack_begin(const struct vm_code_layout *layout);

/* Writes the Java frames outward from `at`, at most `room`.  Returns the number of frames; 0: the words there make no
 * sense.  `whole`: the frames reach the thread's first one. */
jint java_stack(const struct unwind_registers *at, struct call_frame *calls, jint room, bool *whole);

enum java_first {
    JAVA_FIRST_RIGHT,
    JAVA_FIRST_CORRECTED,
    JAVA_FIRST_INEXACT, /* there is no record: calls[0] is the compiled method, its bci JAVA_BCI_INEXACT */
};
enum { JAVA_BCI_NATIVE = -3, JAVA_BCI_INEXACT = -4 };

/* Corrects the innermost of the `count` calls that AsyncGetCallTrace has just found. */
enum java_first java_stack_correct(const struct unwind_registers *at, struct call_frame *calls, jint *count, jint room);

#endif
