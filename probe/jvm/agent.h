/* The agent: the probe's meeting with a JVM, and the one thread of its own. */
#ifndef OFFHEAP_AGENT_H
#define OFFHEAP_AGENT_H

#include <stdbool.h>

#include "jvm/jvmti.h"

/* What others have the agent do, so that it need not know them.  Called on the agent thread, except for vm_died. */
struct agent_duties {
    void (*modules_changed)(void); /* loaded modules have come or gone */
    void (*tick)(void);            /* each second */
    void (*vm_died)(void);         /* the VM is gone, and with it what its threads could still allocate */
};
/* `duties` stay.  Before agent_start and agent_set_up. */
void agent_serve(const struct agent_duties *duties);

/* The agent thread: waits for a JVM, names methods as they are first seen, follows modules.
 * Wanted from probe_start to probe_stop in a process that has a JVM or is about to load one;
 * calling agent_start again is harmless. */
int agent_start(void);
/* Before the guard's state is GUARD_IDLE, so that the last methods still get their names. */
void agent_stop(void);

/* `vm` is complete, and the calling thread is attached to it. */
void agent_vm_live(JavaVM *vm, JNIEnv *env);

/* Agent_OnLoad: `vm` is being created, and VMInit will say when it is complete.  False: it has no JVMTI. */
bool agent_await(JavaVM *vm);
/* Agent_OnAttach: sets up what a recording needs of the VM, before its first sample, or that would have frames
 * without a jmethodID.  False: the calling thread is not attached to `vm`. */
bool agent_set_up(JavaVM *vm);
/* An attach that failed after its set-up leaves the VM as it was. */
void agent_abandon(void);
/* Agent_OnUnload: `vm` is gone. */
void agent_vm_gone(void);

#endif
