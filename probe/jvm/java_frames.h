/* Java frames at the outer end of a native stack, by AsyncGetCallTrace. */
#ifndef OFFHEAP_JAVA_FRAMES_H
#define OFFHEAP_JAVA_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jvm/java_walk.h"
#include "jvm/jvmti.h"
#include "unwind/unwind.h"

/* Looks for the image that is a JVM (libjvm.so, or an image it is linked into) and for the entries that the probe
 * needs; cheap once found.  True when there is one, started or not.  No hook calls this. */
bool java_discover(void);

/* The VM that JNI_GetCreatedJavaVMs returns, or NULL.  Before JDK 22 the VM may still be in creation: do not touch it
 * then. */
JavaVM *java_created_vm(void);

/* The value of a flag of the VM, as vm_flag() of vm_layout.h; after java_discover. */
const void *java_flag(const char *name);

/* From now on hooks walk Java stacks.  `env` and `thread`, of the calling thread, show the address of a JavaThread.
 * False when this JVM has no AsyncGetCallTrace. */
bool java_begin(JavaVM *vm, JNIEnv *env, jthread thread);
/* From now on hooks walk no Java stack. */
void java_end(void);

/* Is the calling thread a Java thread of a discovered JVM? Signal-safe, a few ns. */
bool java_thread(void);

/* Writes Java frames (or one GAP frame) for the calling thread, whose native stack ended at `at`: the first frame
 * outward that no module covers.  Returns the number of frames, 0 when this is no Java thread.  `joined`: they are Java
 * frames.  No allocation, no lock.  `words`, of the native walk to `at`, and `trace` receive what the frames depend on;
 * both may be NULL. */
size_t java_frames(const struct unwind_registers *at, uint64_t *frames, size_t max, bool *joined,
                   struct unwind_trace *words, struct java_trace *trace);

/* Do hooks walk Java stacks? */
bool java_known(void);

#endif
