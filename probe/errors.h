/* Errors as values.  They are also the return codes of Agent_OnAttach.  src/offheap has a sentence for each: add one
 * there when you add an error here. */
#ifndef OFFHEAP_ERRORS_H
#define OFFHEAP_ERRORS_H

enum probe_error {
    PROBE_OK = 0,
    PROBE_BAD_OPTIONS = 101,
    PROBE_ALREADY_RECORDING = 102, /* by an earlier attach or a preload */
    PROBE_NO_SPACE = 103,          /* the live file's file system is full */
    PROBE_CANNOT_CREATE = 104,     /* the live file cannot be created there */
    PROBE_CANNOT_MAP = 105,
    PROBE_NOT_RECORDING = 106, /* stop without a start */
    PROBE_CANNOT_PATCH = 107,  /* no GOT slot can be written */
    PROBE_NO_JVMTI = 108,
    PROBE_PRELOADED = 109,     /* stop: the hooks of a preloaded probe cannot be removed, so the probe stays idle */
    PROBE_OK_AGAIN = 110,      /* OK, from every successful Agent_OnAttach after the first */
    PROBE_FORKED = 111,        /* a child forked from a process during its recording */
    PROBE_BUSY = 112,          /* a thread is still inside the probe since the last recording */
    PROBE_NO_DESCRIPTOR = 113, /* the process has no file descriptor left */
    PROBE_NO_MEMORY = 114,     /* the memory limit of its cgroup leaves too little (store/section_sizes.h) */
    PROBE_NO_PROFILER = 115,   /* dump: no jemalloc that profiles serves malloc */
    PROBE_NO_JFR = 116,        /* the JVM has no module jdk.jfr, or did not resolve it */
    PROBE_JFR_IDLE = 117,      /* no recording of JFR takes the events */
    PROBE_JFR_FAILED = 118,    /* the JVM refused an event or its class */
};

#endif
