/*
 * Signatures of classes that sampled objects had: the VM writes a signature anew for each question, which takes a
 * quarter of a sample.  A class is found by its identity hash and then compared by its weak reference, so that two
 * classes with one hash are told apart.
 *
 *   empty -> taken (one thread fills it) -> kept
 *
 * A kept class stays until class_memo_stop, so readers need no lock.  The memo holds no class alive; when it is full,
 * further classes are asked for each time.
 */
#ifndef OFFHEAP_CLASS_MEMO_H
#define OFFHEAP_CLASS_MEMO_H

#include <stdint.h>

#include "jvm/jvmti.h"

/* Call before the first event of a recording. */
void class_memo_start(void);
/* The offset of a class's signature among the live strings, 0 when it has none or the strings are full.  In an event of
 * JVMTI, between guard_enter and guard_leave. */
uint32_t class_signature(jvmtiEnv *jvmti, JNIEnv *env, jclass class);
/* Call when no thread is in class_signature, before the strings go. */
void class_memo_stop(JNIEnv *env);

#endif
