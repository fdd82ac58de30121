/*
 * Signatures of classes that sampled objects had: the VM writes a signature anew for each question, which takes a
 * quarter of a sample's time.  A class is found by its identity hash and then compared by its weak reference, so that
 * two classes with one hash are told apart.
 *
 *   empty -> taken (one thread fills it) -> kept
 *
 * A kept class stays until class_memo_stop, so readers need no lock.  The memo keeps no class alive.  When the memo is
 * full, each question about a further class goes to the VM.
 */
#ifndef OFFHEAP_CLASS_MEMO_H
#define OFFHEAP_CLASS_MEMO_H

#include <stdint.h>

#include "jvm/jvmti.h"

/* Begins a recording, whose strings are new.  Call it before the first event. */
void class_memo_start(void);
/* The offset of a class's signature among the live strings, 0 when the class has none or the strings are full.  Call it
 * in an event of JVMTI, between guard_enter and guard_leave. */
uint32_t class_signature(jvmtiEnv *jvmti, JNIEnv *env, jclass class);
/* Empties the memo.  Call it when no thread is in class_signature, before the live file is unmapped. */
void class_memo_stop(JNIEnv *env);

#endif
