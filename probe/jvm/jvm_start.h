/* How a preloaded probe meets a JVM: as soon as the JVM is complete, and not before. */
#ifndef OFFHEAP_JVM_START_H
#define OFFHEAP_JVM_START_H

#include "jvm/jvmti.h"

/* dlsym's answer for JNI_CreateJavaVM, whose definition is `found` (or NULL): a wrapper that calls `created` with the
 * VM, on the thread that creates it. */
void *jvm_start_intercept(void *found, void (*created)(JavaVM *vm, JNIEnv *env));

/* For a JVM that does not start through the wrapper: the VM if it is complete, or NULL.
 * `waited_ms`: how long the caller has polled. */
JavaVM *jvm_start_poll(int waited_ms);

#endif
