/*
 * The Java methods at a return address in compiled code, by the debug records of its nmethod.
 *
 *   PcDesc        {pc, from the start of the code; scope, from the start of the scopes}, by pc, a sentinel at both ends
 *   a scope       unsigned numbers: its caller's scope (0: none), its method's place in the metadata, its bci
 *
 * Each call that a walk can pass has a record at exactly its return address.  If the innermost Java frame calls a stub
 * and not native code itself, AsyncGetCallTrace uses the next record (forte.cpp, is_decipherable_compiled_frame): in
 * inlined code that record belongs to another method.
 */
#ifndef OFFHEAP_SCOPES_H
#define OFFHEAP_SCOPES_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"

enum { SCOPES = 48 }; /* HotSpot inlines 15 levels deep, forced inlining included */

struct scope {
    uintptr_t method; /* Method* */
    jint bci;
};

enum scope_record {
    SCOPE_EXACT, /* the record at the pc */
    SCOPE_AFTER, /* the first record behind the pc, which AsyncGetCallTrace uses */
};

/* Call for a complete VM.  NULL: its scopes are not known. */
void scopes_begin(const struct vm_scope_layout *layout);
bool scopes_known(void);

/* The methods at `pc`, the innermost first; the last is the nmethod's own.  0: there is no such record, or it makes
 * no sense.  The calling thread must be in the nmethod: its records are read in place. */
int scopes_at(uintptr_t nmethod, uintptr_t pc, enum scope_record record, struct scope scopes[SCOPES]);

/* For a frame of `nmethod` that returns to deoptimization, with this `sp`: *at is the address of the true pc.  False:
 * that address makes no sense. */
bool scopes_orig_pc_at(uintptr_t nmethod, uintptr_t sp, uintptr_t *at);

#endif
