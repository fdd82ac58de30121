/* Where HotSpot keeps what the walks read: a thread's last Java frame, code, debug records, flags.  The offsets come
 * from libjvm's own tables (gHotSpotVMStructs, for the serviceability agent): no offset is guessed. */
#ifndef OFFHEAP_VM_LAYOUT_H
#define OFFHEAP_VM_LAYOUT_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Byte offsets within a JavaThread. */
struct vm_layout {
    size_t thread_state; /* JavaThreadState, an int */
    size_t last_java_sp, last_java_pc, last_java_fp;
};

/* HotSpot's globalDefinitions.hpp; the same in JDK 8 to 25. */
enum { THREAD_IN_NATIVE = 4, THREAD_IN_VM = 6, THREAD_IN_JAVA = 8 };

/* What java_walk.c needs in addition: code heaps, their frames, and the way from a Method to its jmethodID.
 * Static fields are addresses, all others byte offsets. */
struct vm_code_layout {
    const uintptr_t *heaps, *interpreter, *call_stub_return;
    size_t array_length, array_data;                      /* GrowableArray */
    size_t heap_memory, heap_segments, heap_segment_log2; /* CodeHeap */
    size_t space_low, space_high;                         /* VirtualSpace */
    size_t block_bytes, block_used;                       /* HeapBlock */
    size_t queue_buffer, queue_limit;                     /* StubQueue */
    size_t blob_name, blob_frame_size;                    /* CodeBlob; an nmethod begins with one */
    size_t nmethod_method, nmethod_compile_id, nmethod_state;
    size_t deopt_handlers[2];                  /* return addresses of frames to deoptimize */
    bool deopt_handler_offset;                 /* ints, from the start of the nmethod; else addresses */
    size_t wrapper_sp, wrapper_pc, wrapper_fp; /* JavaCallWrapper's anchor */
    size_t method_const, const_bytes, const_pool, const_number, const_code_size, pool_class,
        class_ids;                    /* bytecodes follow a ConstMethod */
    int wrapper_slot, sender_sp_slot; /* words from a frame's fp */
};

/* What scopes.c needs in addition: the debug records of an nmethod. */
struct vm_scope_layout {
    bool code_offset; /* code_begin is an int, from the start of the blob; else an address */
    size_t code_begin;
    bool apart; /* JDK 23 and later: records are in separate memory at `records`; else in the nmethod */
    size_t records;
    size_t pcs, pcs_end;  /* ints, from the start of the nmethod or of its records */
    size_t data;          /* apart: as pcs; otherwise an address */
    bool metadata_offset; /* an int, from the start of the nmethod; else behind the relocations in mutable data */
    size_t metadata, relocations;
    size_t orig_pc;                         /* an int: offset of a deoptimized frame's pc from its sp */
    size_t desc_bytes, desc_pc, desc_scope; /* PcDesc */
    int first_bci;                          /* the least bci; numbers count from it */
    bool no_zero_bytes;                     /* JDK 20 and later: numbers have no zero bytes */
};

/* A flag of the VM by its name, such as UseZGC: the address of its value, whose type is the flag's.  NULL: this VM has
 * none of that name, or no table of its flags. */
const void *vm_flag(const struct link_map *libjvm, const char *name);

/* False if a field is missing: the JVM is another vendor's, or newer. */
bool vm_scope_layout_read(const struct link_map *libjvm, struct vm_scope_layout *layout);
bool vm_code_layout_read(const struct link_map *libjvm, struct vm_code_layout *layout);

/* False if this image exports no such tables, or they lack a field. */
bool vm_layout_read(const struct link_map *libjvm, struct vm_layout *layout);

#endif
