/* A preloaded probe meets a JVM the moment it is complete, and not before. */
#ifndef OFFHEAP_JVM_START_H
#define OFFHEAP_JVM_START_H

#include "jvm/jvmti.h"

/* What dlsym answers for JNI_CreateJavaVM, whose definition is `found` (or NULL): a wrapper that calls `created`
 * with the VM, on the thread that has created it. */
void *jvm_start_intercept(void *found, void (*created)(JavaVM *vm, JNIEnv *env));

/* For a JVM that was not started through the wrapper: the VM if it is complete, or NULL.
 * `waited_ms`: how long the caller has been asking. */
JavaVM *jvm_start_poll(int waited_ms);

#endif
