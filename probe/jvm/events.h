/* The JVMTI environment and its events: classes (so that AsyncGetCallTrace has its jmethodIDs),
 * thread names, the VM's start and end. */
#ifndef OFFHEAP_EVENTS_H
#define OFFHEAP_EVENTS_H

#include <stdbool.h>

#include "jvm/jvmti.h"

/* The receiver of the VM's own events, each on a thread of the VM. */
struct vm_listener {
    void (*init)(JavaVM *vm, JNIEnv *env); /* the VM is complete; JNI_GetCreatedJavaVMs does not answer yet */
    void (*death)(JNIEnv *env);            /* the VM is about to end */
};

/* Makes the environment, once: from Agent_OnLoad, or in the live phase from an attached thread.  False when the VM
 * has no JVMTI.  `listener` must stay valid. */
bool events_open(JavaVM *vm, const struct vm_listener *listener);
/* The environment, NULL before events_open. */
jvmtiEnv *events_jvmti(void);

/* Before the live phase: enables VMInit. */
void events_await_vm(void);
/* Call in the live phase, on an attached thread.  Gives jmethodIDs to all methods of all loaded classes, and from
 * then on to those of each newly prepared class.  Takes about 2.5 us a class, no safepoint.  False: the VM refuses
 * an event. */
bool events_on(JNIEnv *env);
/* Disables the events that events_on enables. */
void events_off(void);

#endif
