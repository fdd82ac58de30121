/* Where HotSpot keeps a Java thread's last Java frame, as libjvm's own tables (gHotSpotVMStructs,
 * made for the serviceability agent) tell: no offset is guessed. */
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

/* HotSpot's globalDefinitions.hpp; unchanged from 8 to 25. */
enum { THREAD_IN_VM = 6, THREAD_IN_JAVA = 8 };

/* False if this image exports no such tables, or they lack a field. */
bool vm_layout_read(const struct link_map *libjvm, struct vm_layout *layout);

#endif
