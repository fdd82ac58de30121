/* Is that a jmethodID? */
#ifndef OFFHEAP_METHOD_IDS_H
#define OFFHEAP_METHOD_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"

/* For a VM that is complete.  `known`: some method of it.  From the way to and fro between that one and its
 * Method follows whether this VM's jmethodIDs can be looked into at all. */
void method_ids_begin(const struct vm_code_layout *layout, jmethodID known);

/* False for a method that was unloaded, and for what is no jmethodID: JVMTI would crash on that.  From JDK 22 on
 * AsyncGetCallTrace returns such for a frame whose method was redefined under it: the old method gets a new
 * number, by which InstanceKlass::jmethod_id_or_null reads beyond the end of the class's ids.
 * True as well where it cannot be told.  For the agent thread: some fifteen system calls. */
bool method_id_sound(jmethodID id);

/* Method::find_jmethod_id_or_null of what may be no Method at all: whatever stands there, this reads nothing that is
 * not there.  0: none.  Signal-safe; keeps errno; a dozen system calls. */
uint64_t method_id_read(const struct vm_code_layout *layout, uintptr_t method);

#endif
