/*
 * The live Java heap: a sample of the objects that the program allocates, each followed until the collector frees it.
 *
 *   an allocating thread             the collector                the agent thread
 *   SampledObjectAlloc               GarbageCollectionFinish      each second, and after a collection
 *     stack, weak reference,           rings the bell               weak references of dead objects:
 *     row in the live table                                         row and reference go
 *
 * All of it has a JVMTI environment of its own.  HotSpot takes its capabilities and events back when the probe disposes
 * of the environment.
 */
#ifndef OFFHEAP_JAVA_HEAP_H
#define OFFHEAP_JAVA_HEAP_H

#include "jvm/jvmti.h"
#include "options.h"

/* Call for the mapped live file, before the agent starts. */
void java_heap_request(const struct options *options);

/* The next three are the agent's duties (jvm/agent.h), in the live phase. */

/* Follows objects from now on, if the recording requests it and the VM can. */
void java_heap_begin(JavaVM *vm);
/* Takes out objects that have died since the last call, and moves the interval when that is due. */
void java_heap_tick(JNIEnv *env);
/* Takes out what has died, then leaves the VM: no event, capability or weak reference stays. */
void java_heap_end(JNIEnv *env);

#endif
