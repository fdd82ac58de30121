/* The memory limit of the process's cgroup, version 1 or 2, and what is left below it. */
#ifndef OFFHEAP_CGROUP_H
#define OFFHEAP_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup_room {
    uint64_t limit; /* of the group with the least left: the process's own, or one above it */
    uint64_t left;  /* bytes until the kernel kills a process there; page cache that it drops first counts as left */
};

/* Reads the room of the process.  False: no visible group has a limit.  Allocates nothing; reads some ten small files
 * in about 50 us.  src/offheap/proc/cgroup.py reads the same files from outside. */
bool cgroup_read(struct cgroup_room *room);

/* The same with the caller's memory: a thread's stack may be as small as 16 KiB. */
enum { CGROUP_PATH_BYTES = 1024, CGROUP_TEXT_BYTES = 8192 /* memory.stat has 2 to 4 KiB */ };
struct cgroup_scratch {
    char groups[CGROUP_TEXT_BYTES], stat[CGROUP_TEXT_BYTES], folder[CGROUP_PATH_BYTES];
};
bool cgroup_read_using(struct cgroup_scratch *scratch, struct cgroup_room *room);

#endif
