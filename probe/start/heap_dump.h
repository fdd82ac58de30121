/* The heap profile of a profiling jemalloc in this process. */
#ifndef OFFHEAP_HEAP_DUMP_H
#define OFFHEAP_HEAP_DUMP_H

/* Makes jemalloc write its profile to `file`.  Returns PROBE_OK, PROBE_NO_PROFILER or PROBE_CANNOT_CREATE. */
int heap_dump(const char *file);

#endif
