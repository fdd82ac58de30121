/* The agent: it meets the JVM, and has the one thread of the probe's own. */
#ifndef OFFHEAP_AGENT_H
#define OFFHEAP_AGENT_H

#include <stdbool.h>

#include "jvm/jvmti.h"

/* What the agent does for the rooms above it, so that it need not know them.  All on the agent thread, except for
 * vm_died. */
struct agent_duties {
    void (*modules_changed)(void); /* loaded modules have come or gone */
    void (*tick)(void);            /* each second */
    void (*vm_died)(void);         /* the VM is gone; called on the thread that ends it */
};
/* `duties` stay.  Call it before agent_start. */
void agent_serve(const struct agent_duties *duties);

/* Starts the agent thread, which waits for a JVM, names methods as they are first seen, and follows modules.  It is
 * wanted from probe_start to probe_stop in a process that has a JVM or is about to load one; a second call is
 * harmless. */
int agent_start(void);
/* Call before the guard's state is GUARD_IDLE, so that the last methods still get their names. */
void agent_stop(void);

/* Tells that `vm` is complete; the calling thread is attached to it. */
void agent_vm_live(JavaVM *vm, JNIEnv *env);

/* For Agent_OnLoad: `vm` is being created, and VMInit will say when it is complete.  False: it has no JVMTI. */
bool agent_await(JavaVM *vm);
/* For Agent_OnAttach: sets up what a recording needs of the VM.  Call it before the first sample, whose frames would
 * have no jmethodID otherwise.  False: the calling thread is not attached to `vm`. */
bool agent_set_up(JavaVM *vm);
/* For an attach that failed after its set-up: leaves the VM as it was. */
void agent_abandon(void);
/* For Agent_OnUnload: `vm` is gone. */
void agent_vm_gone(void);

#endif
