/* Events in the recordings of JDK Flight Recorder.
 *
 * The probe defines the event classes in a loader of their own, when JFR is in use and not before, and commits what a
 * recorder sends, on the thread that serves its request.  It starts no thread and registers nothing periodic. */
#ifndef OFFHEAP_FLIGHT_RECORDER_H
#define OFFHEAP_FLIGHT_RECORDER_H

#include "jvm/jvmti.h"

/* Whether a recording of JFR takes one of the events: PROBE_OK, PROBE_JFR_IDLE, PROBE_NO_JFR, PROBE_JFR_FAILED, or
 * PROBE_NOT_RECORDING.  The calling thread must be attached to `vm`. */
int flight_recorder_status(JavaVM *vm);
/* Commits events (event_text.h); what is disabled is dropped.  Likewise, and PROBE_BAD_OPTIONS. */
int flight_recorder_commit(JavaVM *vm, const char *text);
/* Unregisters the event classes and gives up their loader: the next collection that unloads classes takes them. */
void flight_recorder_leave(JavaVM *vm);

#endif
