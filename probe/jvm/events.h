/* The JVMTI environment and its events: classes (so that AsyncGetCallTrace has its jmethodIDs),
 * thread names, the VM's start and end. */
#ifndef OFFHEAP_EVENTS_H
#define OFFHEAP_EVENTS_H

#include <stdbool.h>

#include "jvm/jvmti.h"

/* Makes the environment, once; from Agent_OnLoad, or in the live phase from an attached thread.
 * False when the VM has no JVMTI. */
bool events_open(JavaVM *vm);
/* The environment, NULL before events_open. */
jvmtiEnv *events_jvmti(void);

/* Before the live phase: asks for VMInit. */
void events_await_vm(void);
/* In the live phase, on an attached thread.  Gives every method of every loaded class its
 * jmethodID and, from then on, those of each class that is prepared.  About 2.5 us a class,
 * no safepoint. */
bool events_on(JNIEnv *env);
void events_off(void);

#endif
