/* How large the tables of a live file are, and how much memory the probe may take for them. */
#ifndef OFFHEAP_SECTION_SIZES_H
#define OFFHEAP_SECTION_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "recording.h"

/* The size of one section. */
struct shape {
    uint64_t capacity; /* rows */
    uint32_t row_bytes;
};

/* Bytes that the probe may take: the bound in `options` and, without `force`, at most half of what is left below the
 * memory limit of the process's cgroup, since the program may need the rest.  In a program that is starting, also at
 * most a sixteenth of the limit, less 768 KiB for what the kernel and the JVM take beside the tables (unless the tables
 * are the smallest).  Later the live table may take more, if there is room then. */
uint64_t shape_allowance(const struct options *options, enum offheap_entry entry);

/* Chooses the tables that `options` request, or smaller ones (`smaller` is then true), so that the probe takes at most
 * `bound` bytes at the start, including the bytes `taken` before.  All but the smallest tables also leave an eighth of
 * `bound` to the sections that threads append to.  Adds the tables to `taken`.  False: the smallest tables are too
 * large. */
bool shape_fit(const struct options *options, uint64_t bound, struct shape shapes[OFFHEAP_SECTIONS], uint64_t *taken,
               bool *smaller);

/* Do several threads append to the section, which is then populated step by step?  The others are hash tables,
 * populated whole at the start. */
bool shape_appends(enum offheap_section_id section);

/* Rows of COUNTERS for a stack. */
uint32_t shape_shards(const struct options *options);

#endif
