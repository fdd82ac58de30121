/* Start and stop of a recording. */
#ifndef OFFHEAP_START_STOP_H
#define OFFHEAP_START_STOP_H

#include "options.h"
#include "recording.h"

/* Starts a recording.  Unless preloaded, also patches the GOTs.  Returns enum probe_error. */
int probe_start(const struct options *options, enum offheap_entry entry);
/* Stops the recording; unless preloaded, also restores every patched slot.  Returns enum probe_error; a preloaded probe
 * answers PROBE_PRELOADED after it has stopped. */
int probe_stop(void);
/* Keeps the present live file after the end of the process, even if a recorder asked for the file. */
void probe_keep(void);

#endif
