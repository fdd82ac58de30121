/* The parts of HotSpot that a Java walk reads, in memory of the test: code heaps, an interpreter, classes with their
 * Methods.  One part is sound; the other is torn and lies next to unreadable pages. */
#ifndef FAKE_VM_H
#define FAKE_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvm/vm_layout.h"

enum { PAGE = 4096, CLASSES = 24, METHODS_EACH = 6, BYTECODES = 64, NMETHODS = 192 };
enum { RECORDS = 4, RECORD_STEP = 90 }; /* of an nmethod: record i at code + (i + 1) * RECORD_STEP, inlining depth i */
enum { DEAD_CLASS = 0 };                /* torn words lead to it; no call has its methods */

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
    uintptr_t more[37], *ids; /* ids[0]: the number of the others; they end at the end of the page */
    struct fake_pool pool;
    struct fake_method methods[METHODS_EACH];
    struct fake_code codes[METHODS_EACH];
};
/* JDK 11 to 22: debug records in the nmethod itself. */
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
    uint8_t scope_bytes[8 + 8 * RECORDS];    /* offset 0: no scope */
    struct fake_method *metadata[RECORDS];   /* [0]: the nmethod's own method */
    uint8_t code[384];
};

extern struct vm_code_layout fake_layout;
extern struct vm_scope_layout fake_scope_layout;
extern struct fake_nmethod *fake_nmethods[NMETHODS]; /* sound; [i]: method i % METHODS_EACH of class i % CLASSES */

/* The code of the call stub and of the interpreter; nobody reads it. */
extern uintptr_t fake_call_stub, fake_interpreter, fake_interpreter_bytes;

/* Returns memory between two unreadable pages. */
uintptr_t fake_island(size_t bytes);

/* A random number less than `below`; the seed fixes the sequence. */
uint64_t draw(uint64_t below);

void fake_vm_begin(uint64_t seed);
uintptr_t fake_id(unsigned class, unsigned method); /* 0: not loaded */
struct fake_method *fake_method(unsigned class, unsigned method);
bool fake_loaded(unsigned class);
bool fake_renewed(unsigned class); /* other Methods were at the addresses of its Methods before */

void fake_vm_tear(void);        /* tears words that it draws */
void fake_vm_come_and_go(void); /* unloads a class, or loads one with ids that no method had */

/* A torn word: an address in the VM, one near it, or a random number. */
uintptr_t fake_torn_pointer(void);
uintptr_t fake_torn_pc(void);

#endif
