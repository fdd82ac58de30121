/* Options of the probe: "interval=524288,exact,dir=/dev/shm,..." from OFFHEAP in the
 * environment (preload), from -agentpath:...=, or from the attach request. */
#ifndef OFFHEAP_OPTIONS_H
#define OFFHEAP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    uint64_t interval; /* interval=BYTES  mean bytes between samples; 0: exact */
    uint64_t least;    /*                 least interval that the budget may choose; `interval` if that is stated */
    uint64_t budget;   /* budget=1%       CPU that sampling may take, in millionths; 0 if only an interval is
                            stated.  If both are stated, the interval is the first and the least */
    uint64_t blocks;   /* blocks=N        capacity for live blocks; if not stated, the first capacity */
    bool grows;        /*                 blocks=N is not stated */
    uint64_t stacks;   /* stacks=N        capacity for distinct stacks */
    uint64_t seed;     /* seed=N          of the sampler, for tests; 0: from the clock */
    uint64_t memory;   /* memory=BYTES    most bytes that the probe takes; default 320 MiB if exact, else 64 MiB */
    uint64_t room;     /* room=BYTES      what offheap found free below a memory limit; also a bound */
    bool java;         /* java            follow Java objects too */
    uint64_t java_interval; /* java-interval=BYTES  mean bytes between sampled objects; 0: what the budget allows */
    uint64_t java_objects;  /* java-objects=N  most objects that are followed */
    bool force;             /* force           ignore the memory limit of the process's cgroup */
    bool keep;              /* keep            the live file stays when the process ends */
    uint64_t recorder[3];   /* recorder=A.B.C  PID, start and PID namespace of the offheap that the file is made for */
    bool follow;            /* follow          children inherit the probe */
    uint64_t search;        /* search=PID      the variables stay in the environment until a JVM starts; until then
                            only children of PID (offheap run) make a live file of their own */
    char directory[512];    /* dir=PATH        folder of the live file */
    char file[512];         /* file=PATH       exact path of the live file instead (attach) */
};

/* Sets the defaults, then the options that `text` names (NULL: none).  Returns 0 or PROBE_BAD_OPTIONS; an unknown word
 * is an error. */
int options_parse(struct options *options, const char *text);

#endif
