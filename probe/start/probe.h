/* The probe's life: start, stop, who may touch the live file, and what happens at fork and exit. */
#ifndef OFFHEAP_PROBE_H
#define OFFHEAP_PROBE_H

#include <stdbool.h>

#include "options.h"
#include "recording.h"

#ifndef PROBE_VERSION /* probe/build.py gives the package's */
#define PROBE_VERSION "0"
#endif

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Errors as values.  They are Agent_OnAttach's return codes too, and src/offheap/jvm
 * turns each into a sentence: add there what you add here. */
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
    PROBE_OK_AGAIN = 110,          /* OK, from all but the first successful Agent_OnAttach */
    PROBE_FORKED = 111,            /* a child of a process that was recorded when it forked */
    PROBE_BUSY = 112,              /* a thread has not come out of the probe since the last recording */
    PROBE_NO_DESCRIPTOR = 113,     /* the process has as many files open as it may */
    PROBE_NO_MEMORY = 114,         /* the memory limit of its cgroup leaves too little (shape.h) */
};

/* STOPPING: hooks let everything pass already, and the JVM is described still. */
enum probe_state { PROBE_IDLE, PROBE_RECORDING, PROBE_STOPPING };
extern _Atomic int probe_state __attribute__((visibility("hidden")));

/* Preloaded: looks at the environment and starts if it asks for that; called by the first allocation
 * of the process (other libraries' constructors come before ours) and by our constructor.  True when
 * this call has started a recording. */
bool probe_wake(void);

/* Starts recording.  Unless preloaded, also patches the GOTs.  Returns enum probe_error. */
int probe_start(const struct options *options, enum offheap_entry entry);
/* Stops recording; unless preloaded, also restores every patched slot.
 * A preloaded probe answers PROBE_PRELOADED after it has stopped. */
int probe_stop(void);
/* The process ends: what is live now is what it leaves behind.  Nothing is recorded any more, since
 * the destructors of C++ statics will free what was leaked into them. */
void probe_fall_asleep(void);
/* Is there a live file of this process?  The state alone is also that of a forked child, whose parent has it. */
bool probe_is_recording(void);
/* What is recorded now is wanted after the end, though it was made for a recorder. */
void probe_keep(void);
/* Says on stderr that nothing is recorded, and why. */
void probe_complain(int error);
/* True when this library was preloaded: its symbols interpose, GOTs are left alone. */
bool probe_is_preloaded(void);
/* Modules have come (a dlopen ended; also called by the agent thread when woken) or gone (a dlclose). */
void probe_modules_changed(void);
void probe_modules_closed(void);
/* libjvm is about to be loaded. */
void probe_jvm_loading(void);
/* May dlsym answer with a hook? */
bool probe_hands_out_hooks(void);

/* Between probe_enter and probe_leave a hook may touch the live file: probe_stop waits
 * for whoever is inside before it unmaps.  probe_enter is false when nothing records,
 * in a forked child, and inside the probe itself (a signal handler, an allocation by
 * something the probe calls); then the hook only passes the call on.  Signal-safe. */
bool probe_enter(void);
void probe_leave(void);
/* Between the two: a number below 256 that no other thread has meanwhile, or -1 if there is none for it. */
int probe_lane(void);
/* The same for taking a block out, which must not be missed when a signal handler
 * frees inside the probe: it may nest. */
bool probe_enter_to_forget(void);
void probe_leave_forgetting(void);
/* As probe_enter, and also while a recording is being stopped: for what describes the JVM and its methods. */
bool probe_enter_to_describe(void);

#endif
