/* Tells jmethodIDs from other words. */
#ifndef OFFHEAP_METHOD_IDS_H
#define OFFHEAP_METHOD_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"

/* Call for a VM that is complete.  `known`: some method of it.  The way to its Method and back shows whether the ids
 * of this VM can be checked at all. */
void method_ids_begin(const struct vm_code_layout *layout, jmethodID known);

/* False for a method that was unloaded, and for a word that is no jmethodID: JVMTI would crash on it.  From JDK 22
 * on AsyncGetCallTrace returns such a word for a frame whose method was redefined under it: the old method gets a
 * new number, by which InstanceKlass::jmethod_id_or_null reads beyond the end of the class's ids.  Also true where
 * it cannot be told.  For the agent thread: some fifteen system calls. */
bool method_id_sound(jmethodID id);

/* Method::find_jmethod_id_or_null of a word that may be no Method at all: this reads only what is mapped.  0: there
 * is none.  Signal-safe; keeps errno; a dozen system calls. */
uint64_t method_id_read(const struct vm_code_layout *layout, uintptr_t method);

#endif
