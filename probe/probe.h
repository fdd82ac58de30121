/* The probe's life: start, stop, and what happens at fork and exit. */
#ifndef OFFHEAP_PROBE_H
#define OFFHEAP_PROBE_H

#include <stdbool.h>

#include "options.h"
#include "recording.h"

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Errors as values.  They are Agent_OnAttach's return codes too, and
 * src/offheap/jvm/attach.py turns each into a sentence: add there what you add here. */
enum probe_error {
    PROBE_OK = 0,
    PROBE_BAD_OPTIONS = 101,
    PROBE_ALREADY_RECORDING = 102, /* by an earlier attach or a preload */
    PROBE_NO_SPACE = 103,          /* the live file's file system is full */
    PROBE_CANNOT_CREATE = 104,     /* the live file could not be made there */
    PROBE_CANNOT_MAP = 105,
    PROBE_NOT_RECORDING = 106,     /* stop without a start */
    PROBE_CANNOT_PATCH = 107,      /* no GOT slot could be written */
    PROBE_NO_JVMTI = 108,
    PROBE_PRELOADED = 109,         /* stop: a preloaded probe stays idle, its hooks cannot be taken out */
};

enum probe_state { PROBE_IDLE, PROBE_RECORDING };
extern _Atomic int probe_state;

/* Starts recording.  Attach: also patches the GOTs.  Returns enum probe_error. */
int probe_start(const struct options *options, enum offheap_entry entry);
/* Stops recording; attach: also restores every patched slot. */
int probe_stop(void);
/* True when this library was preloaded: its symbols interpose, GOTs are left alone. */
bool probe_is_preloaded(void);
/* Called by dlopen/dlclose hooks and by the agent thread: modules have come or gone. */
void probe_modules_changed(void);

#endif
