/* As much of a HotSpot as a Java walk reads, in memory of our own: code heaps, an interpreter, classes with their
 * Methods.  One part is as a VM keeps it; another is torn, and what is torn lies next to pages that may not be read. */
#ifndef FAKE_VM_H
#define FAKE_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvm/vm_layout.h"

enum { PAGE = 4096, CLASSES = 24, METHODS_EACH = 6, BYTECODES = 64, NMETHODS = 192 };
enum { RECORDS = 4, RECORD_STEP = 90 }; /* of an nmethod: at code + (i + 1) * RECORD_STEP, i methods deep inlined */
enum { DEAD_CLASS = 0 };                /* torn words lead to it, and no call is of its methods */

struct fake_method {
    uintptr_t vtable;
    struct fake_code *constants;
    uintptr_t more[9];
};
struct fake_code {
    uint64_t fingerprint;
    struct fake_pool *pool;
    uint8_t more[22];
    uint16_t number, more_numbers[4];
    uint8_t bytecodes[BYTECODES];
};
struct fake_pool {
    uintptr_t more[3];
    struct fake_class *holder;
};
struct fake_class {
    uintptr_t more[37], *ids; /* ids[0]: how many follow; they end where the page does */
    struct fake_pool pool;
    struct fake_method methods[METHODS_EACH];
    struct fake_code codes[METHODS_EACH];
};
/* As JDK 11 to 22 have it: debug records in the nmethod itself. */
struct fake_desc {
    int32_t pc, scope;
};
struct fake_nmethod {
    uintptr_t vtable;
    const char *name;
    int32_t size, frame_words;
    uintptr_t more[10];
    struct fake_method *method;
    int32_t compile_id;
    int8_t state; /* 0: in use */
    uintptr_t deopt_handlers[2];
    uintptr_t code_begin, scopes;
    int32_t descs_at, descs_end, metadata_at, orig_pc_at;
    struct fake_desc descs[1 + RECORDS + 1]; /* a sentinel at both ends */
    uint8_t scope_bytes[8 + 8 * RECORDS];    /* offset 0 is none */
    struct fake_method *metadata[RECORDS];   /* [0] is its own method */
    uint8_t code[384];
};

extern struct vm_code_layout fake_layout;
extern struct vm_scope_layout fake_scope_layout;
extern struct fake_nmethod *fake_nmethods[NMETHODS]; /* sound; each of method i % METHODS_EACH of class i % CLASSES */

/* Where the Java frames' native callers, and the interpreter, have their code: nobody reads it. */
extern uintptr_t fake_call_stub, fake_interpreter, fake_interpreter_bytes;

/* Memory between two pages that may not be read. */
uintptr_t fake_island(size_t bytes);

/* Below 2^64 - 1; the same for the same seed. */
uint64_t draw(uint64_t below);

void fake_vm_begin(uint64_t seed);
uintptr_t fake_id(unsigned class, unsigned method); /* 0: not loaded */
struct fake_method *fake_method(unsigned class, unsigned method);
bool fake_loaded(unsigned class);
bool fake_renewed(unsigned class); /* others were in the place of its Methods */

/* Tears other words than before; and now and then a class comes, with ids that no method had, or goes. */
void fake_vm_tear(void);
void fake_vm_come_and_go(void);

/* What a torn word may be: of the VM, near it, or nothing at all. */
uintptr_t fake_torn_pointer(void);
uintptr_t fake_torn_pc(void);

#endif
