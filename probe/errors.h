/* Errors as values.  They are also the return codes of Agent_OnAttach, and src/offheap turns each into a sentence:
 * add there what you add here. */
#ifndef OFFHEAP_ERRORS_H
#define OFFHEAP_ERRORS_H

enum probe_error {
    PROBE_OK = 0,
    PROBE_BAD_OPTIONS = 101,
    PROBE_ALREADY_RECORDING = 102, /* by an earlier attach or a preload */
    PROBE_NO_SPACE = 103,          /* the live file's file system is full */
    PROBE_CANNOT_CREATE = 104,     /* the live file could not be made there */
    PROBE_CANNOT_MAP = 105,
    PROBE_NOT_RECORDING = 106, /* stop without a start */
    PROBE_CANNOT_PATCH = 107,  /* no GOT slot could be written */
    PROBE_NO_JVMTI = 108,
    PROBE_PRELOADED = 109,     /* stop: a preloaded probe stays idle, its hooks cannot be taken out */
    PROBE_OK_AGAIN = 110,      /* OK, from all but the first successful Agent_OnAttach */
    PROBE_FORKED = 111,        /* a child of a process that was recorded when it forked */
    PROBE_BUSY = 112,          /* a thread has not come out of the probe since the last recording */
    PROBE_NO_DESCRIPTOR = 113, /* the process has as many files open as it may */
    PROBE_NO_MEMORY = 114,     /* the memory limit of its cgroup leaves too little (store/section_sizes.h) */
};

#endif
