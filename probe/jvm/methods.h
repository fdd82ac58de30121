/* Java methods: jmethodID -> row of METHODS in the hook, names by the agent thread. */
#ifndef OFFHEAP_METHODS_H
#define OFFHEAP_METHODS_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"

/* Forgets what waits for a name: a new live file. */
void methods_start(void);

/* The slot of a method in METHODS; on its first sight wakes the agent thread.  Slot 0 stands for
 * a method that is not known: a null id, or a full table (both counted).  Signal-safe. */
uint32_t method_slot(jmethodID id);

/* Names the methods seen since the last call.  The class of a method may be unloaded at any time
 * and takes the names with it, so this is to be called at once after bell_ring. */
void methods_name(jvmtiEnv *jvmti, JNIEnv *env);

#endif
