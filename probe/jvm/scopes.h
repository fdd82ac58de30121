/*
 * Which Java methods a return address in compiled code stands for: the debug records of its nmethod.
 *
 *   PcDesc        {pc, from the start of the code; scope, from the start of the scopes}, by pc, a sentinel at both ends
 *   a scope       unsigned numbers: its caller's scope (0: none), its method's place in the metadata, its bci
 *
 * Each call that can be walked through has a record at exactly its return address.  AsyncGetCallTrace takes the record
 * after it where the innermost Java frame called a stub and not native code itself (forte.cpp,
 * is_decipherable_compiled_frame): in code that is inlined, that is another method.
 */
#ifndef OFFHEAP_SCOPES_H
#define OFFHEAP_SCOPES_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"

enum { SCOPES = 48 }; /* HotSpot inlines 15 levels deep, and what it forces inline is no deeper */

struct scope {
    uintptr_t method; /* Method* */
    jint bci;
};

enum scope_record {
    SCOPE_EXACT, /* the one at the pc */
    SCOPE_AFTER, /* the first one behind it, as AsyncGetCallTrace does */
};

/* For a VM that is complete; NULL: scopes are not known. */
void scopes_begin(const struct vm_scope_layout *layout);
bool scopes_known(void);

/* The methods at `pc`, the innermost first; the last is the nmethod's own.  0: there is no such record, or it makes no
 * sense.  The nmethod must be one that the calling thread is in: its records are read where they stand. */
int scopes_at(uintptr_t nmethod, uintptr_t pc, enum scope_record record, struct scope scopes[SCOPES]);

/* A pc of `nmethod` that its frame returns to by way of deoptimization: the true one, 0 if that makes no sense.
 * `word`: reads the frame's word at an offset from its sp. */
bool scopes_orig_pc_at(uintptr_t nmethod, uintptr_t sp, uintptr_t *at);

#endif
