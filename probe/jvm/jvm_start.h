/* How a preloaded probe meets a JVM the moment it is complete, and not before. */
#ifndef OFFHEAP_JVM_START_H
#define OFFHEAP_JVM_START_H

#include "jvm/jvmti.h"

/* What dlsym shall answer for `symbol`, whose definition is `found`: for JNI_CreateJavaVM a wrapper
 * that tells the agent; for anything else `found` itself. */
void *jvm_start_intercept(const char *symbol, void *found);

/* For a JVM that was not started through the wrapper: the VM if it is complete, or NULL.
 * `waited_ms`: how long the caller has been asking. */
JavaVM *jvm_start_poll(int waited_ms);

#endif
