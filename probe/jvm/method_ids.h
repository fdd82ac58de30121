/* Tells jmethodIDs from other words. */
#ifndef OFFHEAP_METHOD_IDS_H
#define OFFHEAP_METHOD_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "jvm/jvmti.h"
#include "jvm/vm_layout.h"

/* Call for a complete VM.  `known`: any method of it.  The way to the Method and back shows whether the ids of this VM
 * can be checked at all. */
void method_ids_begin(const struct vm_code_layout *layout, jmethodID known);

/* False for an unloaded method, and for a word that is no jmethodID, which crashes JVMTI.  From JDK 22 on
 * AsyncGetCallTrace returns such a word for a frame whose method is redefined while it runs: the old method gets a new
 * number, by which InstanceKlass::jmethod_id_or_null reads beyond the end of the class's ids.  Also true if ids cannot
 * be checked.  For the agent thread: some fifteen system calls. */
bool method_id_sound(jmethodID id);

/* Method::find_jmethod_id_or_null of a word that may be no Method: reads only mapped memory.  0: there is none.
 * Signal-safe; keeps errno; a dozen system calls. */
uint64_t method_id_read(const struct vm_code_layout *layout, uintptr_t method);

#endif
