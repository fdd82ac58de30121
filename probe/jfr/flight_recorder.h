/* Events in the recordings of JDK Flight Recorder.
 *
 * The probe defines the event classes in a loader of their own, when JFR is in use and not before, and commits what a
 * recorder sends, on the thread that serves its request.  It starts no thread and registers nothing periodic. */
#ifndef OFFHEAP_FLIGHT_RECORDER_H
#define OFFHEAP_FLIGHT_RECORDER_H

#include "jvm/jvmti.h"

/* Does a recording of JFR take one of the events?  PROBE_OK, PROBE_JFR_IDLE, PROBE_NO_JFR, PROBE_JFR_FAILED, or
 * PROBE_NOT_RECORDING.  The calling thread must be attached to `vm`. */
int flight_recorder_status(JavaVM *vm);
/* Commits the events in `text` (event_text.h); JFR drops events that are disabled.  Returns the same values, or
 * PROBE_BAD_OPTIONS for a wrong text. */
int flight_recorder_commit(JavaVM *vm, const char *text);
/* Unregisters the event classes and gives up their loader: the next collection that unloads classes unloads these. */
void flight_recorder_leave(JavaVM *vm);

#endif
