/*
 * The Java methods that a return address in compiled code stands for: the debug records of its nmethod.
 *
 *   PcDesc        {pc, from the start of the code; scope, from the start of the scopes}, by pc, a sentinel at both ends
 *   a scope       unsigned numbers: its caller's scope (0: none), its method's place in the metadata, its bci
 *
 * Each call that can be walked through has a record at exactly its return address.  Where the innermost Java frame
 * called a stub and not native code itself, AsyncGetCallTrace takes the record after it (forte.cpp,
 * is_decipherable_compiled_frame): in inlined code that record belongs to another method.
 */
#ifndef OFFHEAP_SCOPES_H
#define OFFHEAP_SCOPES_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"

enum { SCOPES = 48 }; /* HotSpot inlines 15 levels deep, and methods that it is forced to inline go no deeper */

struct scope {
    uintptr_t method; /* Method* */
    jint bci;
};

enum scope_record {
    SCOPE_EXACT, /* the record at the pc */
    SCOPE_AFTER, /* the first record behind the pc, as AsyncGetCallTrace takes it */
};

/* Call for a VM that is complete.  NULL: its scopes are not known. */
void scopes_begin(const struct vm_scope_layout *layout);
bool scopes_known(void);

/* The methods at `pc`, the innermost first; the last is the nmethod's own.  0: there is no such record, or it makes
 * no sense.  The calling thread must be in the nmethod: its records are read in place. */
int scopes_at(uintptr_t nmethod, uintptr_t pc, enum scope_record record, struct scope scopes[SCOPES]);

/* `pc` is a pc of `nmethod` by which its frame returns to deoptimization.  Returns the true pc, 0 if that makes no
 * sense.  `word` reads the frame's word at an offset from its sp. */
bool scopes_orig_pc_at(uintptr_t nmethod, uintptr_t sp, uintptr_t *at);

#endif
