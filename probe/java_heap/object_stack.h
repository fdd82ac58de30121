/* The stack of a Java object: its class, then Java frames. */
#ifndef OFFHEAP_OBJECT_STACK_H
#define OFFHEAP_OBJECT_STACK_H

#include <stdint.h>

#include "jvm/jvmti.h"
#include "unwind/unwind.h"

/* Returns the row of the stack of an object that the calling thread allocates, 0 when the tables are full.  Call it in
 * an event of JVMTI, between guard_enter and guard_leave, with the caller's registers: where no Java method runs,
 * native frames follow the class. */
uint32_t object_stack(jvmtiEnv *jvmti, JNIEnv *env, jclass class, struct unwind_registers *registers);

#endif
