/* The agent: meets the JVM, and has the only thread of the probe. */
#ifndef OFFHEAP_AGENT_H
#define OFFHEAP_AGENT_H

#include <stdbool.h>

#include "jvm/jvmti.h"

/* The functions of the rooms above that the agent calls, so that it need not know these rooms.  All run on the agent
 * thread, except vm_died and the last vm_tick. */
struct agent_duties {
    void (*modules_changed)(void); /* modules have been loaded or unloaded */
    void (*tick)(void);            /* each second */
    void (*vm_met)(JavaVM *vm);    /* the recording has described the VM */
    void (*vm_tick)(JNIEnv *env);  /* each second while the VM lives, and once on the thread that ends it */
    void (*vm_left)(JNIEnv *env);  /* the recording ends, and the VM lives on */
    void (*vm_died)(void);         /* the VM is gone; called on the thread that ends it */
};
/* Sets the duties, which must stay valid.  Call it before agent_start. */
void agent_serve(const struct agent_duties *duties);

/* Starts the agent thread, which waits for a JVM, names new methods, and follows modules.  It runs from probe_start to
 * probe_stop in a process that has a JVM or is about to load one; a second call is harmless.  Returns 0 or the error of
 * pthread_create. */
int agent_start(void);
/* Ends the agent thread and waits for its end, 10 s at most.  Call it before the guard's state is GUARD_IDLE, so that
 * the last methods still get their names. */
void agent_stop(void);

/* Tells that `vm` is complete; the calling thread is attached to it. */
void agent_vm_live(JavaVM *vm, JNIEnv *env);

/* For Agent_OnLoad: the JVM is still creating `vm`; VMInit tells when it is complete.  False: it has no JVMTI. */
bool agent_await(JavaVM *vm);
/* For Agent_OnAttach: sets up what a recording needs of the VM.  Call it before the first sample, since otherwise the
 * frames have no jmethodID.  False: the calling thread is not attached to `vm`. */
bool agent_set_up(JavaVM *vm);
/* For an attach that failed after its set-up: leaves the VM as it was. */
void agent_abandon(void);
/* For Agent_OnUnload: `vm` is gone. */
void agent_vm_gone(void);

#endif
