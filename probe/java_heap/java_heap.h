/*
 * The live Java heap: a sample of the objects that the program allocates, each followed until the collector frees it.
 *
 *   an allocating thread             the collector                the agent thread
 *   SampledObjectAlloc               GarbageCollectionFinish      each second, and after a collection
 *     stack, weak reference,           rings the bell               weak references of dead objects:
 *     row in the live table                                         row and reference go
 *
 * The events and capabilities belong to a separate JVMTI environment.  HotSpot takes them back when the probe disposes
 * of that environment.
 */
#ifndef OFFHEAP_JAVA_HEAP_H
#define OFFHEAP_JAVA_HEAP_H

#include "jvm/jvmti.h"
#include "options.h"

/* Keeps the options.  Call it when the live file is mapped, before the agent starts. */
void java_heap_request(const struct options *options);

/* The next three are the agent's duties (jvm/agent.h), in the live phase. */

/* Follows objects from now on, if the recording requests it and the VM can. */
void java_heap_begin(JavaVM *vm);
/* Removes objects that have died, thins the rest if they are too many, and moves the interval, each when it is due. */
void java_heap_tick(JNIEnv *env);
/* Removes dead objects, then leaves the VM: no event or capability stays, and no weak reference unless a thread is
 * stopped in an event. */
void java_heap_end(JNIEnv *env);

#endif
