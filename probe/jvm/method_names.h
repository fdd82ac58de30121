/* Java methods: the hook maps a jmethodID to a row of METHODS, the agent thread names the row. */
#ifndef OFFHEAP_METHOD_NAMES_H
#define OFFHEAP_METHOD_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"

/* Forgets the methods that wait for a name, for a new live file. */
void methods_start(void);

/* The slot of a method in METHODS; wakes the agent thread when the method is new.  Slot 0 is an unknown method: a null
 * id, or a full table (both counted).  Signal-safe. */
uint32_t method_slot(jmethodID id);

/* Names the methods seen since the last call.  The VM may unload the class of a method at any time, and the names with
 * it, so call this immediately after a bell_ring. */
void methods_name(jvmtiEnv *jvmti, JNIEnv *env);

#endif
