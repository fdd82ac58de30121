/* Options of the probe: "interval=524288,exact,dir=/dev/shm,..." from OFFHEAP in the
 * environment (preload), from -agentpath:...=, or from the attach request. */
#ifndef OFFHEAP_OPTIONS_H
#define OFFHEAP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    uint64_t interval;    /* interval=BYTES  mean bytes between samples; 0: exact */
    uint64_t least;       /*                 the least it may become; the interval itself, but for a budget alone */
    uint64_t budget;      /* budget=1%       CPU that sampling may take, kept in millionths; 0 where an interval is
                            stated alone.  Stated with one, that is where it starts, and the least */
    uint64_t blocks;      /* blocks=N        live blocks there is room for; unless stated, to begin with */
    bool grows;           /*                 it was not stated */
    uint64_t stacks;      /* stacks=N        distinct stacks there is room for */
    uint64_t seed;        /* seed=N          of the sampler, for tests; 0: from the clock */
    uint64_t memory;      /* memory=BYTES    most that the probe takes; unless stated 320 MiB when exact, else 64 MiB */
    uint64_t room;        /* room=BYTES      the same, as offheap has found it left below a memory limit */
    bool force;           /* force           whatever the memory limit of the process's cgroup leaves */
    bool keep;            /* keep            the live file stays when the process ends */
    uint64_t recorder[3]; /* recorder=A.B.C  PID, start and PID namespace of the offheap that the file is made for */
    bool follow;          /* follow          children inherit the probe */
    uint64_t search;      /* search=PID      stay in the environment until a JVM has started; of the processes
                            before it only children of PID (offheap run) make a live file of their own */
    char directory[512];  /* dir=PATH        where the live file is made */
    char file[512];       /* file=PATH       its exact name instead (attach) */
};

/* Fills in the defaults, then what `text` says (NULL: nothing).
 * Returns 0 or PROBE_BAD_OPTIONS; an unknown word is an error. */
int options_parse(struct options *options, const char *text);

#endif
