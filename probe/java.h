/* Java frames at a native stack's outer end, by AsyncGetCallTrace. */
#ifndef OFFHEAP_JAVA_H
#define OFFHEAP_JAVA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind.h"

/* Looks for a started JVM and the entries needed (JNI_GetCreatedJavaVMs, AsyncGetCallTrace);
 * cheap when nothing changed.  Called by the agent thread, never by a hook. */
bool java_discover(void);

/* Is the calling thread a Java thread of a discovered JVM? Signal-safe, a few ns. */
bool java_thread(void);

/* Writes Java frames (or one GAP frame) for the calling thread, whose native stack ended at `at`.
 * Returns how many were written, 0 when this thread has no Java frames at all
 * (not a Java thread).  No allocation, no lock. */
size_t java_frames(const struct unwind_registers *at, uint64_t *frames, size_t max, bool *joined);

/* The agent thread: waits for a JVM, names methods as they are first seen, follows modules.
 * Started by probe_start; stopped by probe_stop. */
int agent_start(void);
void agent_stop(void);
/* Wakes it (a futex; signal-safe). */
void agent_wake(void);

#endif
