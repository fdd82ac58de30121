/* How large the tables of a live file are, and how much memory the probe may take for them. */
#ifndef OFFHEAP_SHAPE_H
#define OFFHEAP_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "recording.h"

struct shape {
    uint64_t capacity; /* rows */
    uint32_t row_bytes;
};

/* Bytes that the probe may take: what `options` say, and unless they say `force` no more than half of what is left
 * below the memory limit of the process's cgroup, for the program may want more itself.  A program that is
 * only starting will: there it is no more than a sixteenth of the limit, either.  Later the live table may
 * take more, as there is room then. */
uint64_t shape_allowance(const struct options *options, enum offheap_entry entry);

/* The tables that `options` ask for, or smaller ones (then `smaller` becomes true), so that with what is `taken` already
 * the probe has no more than `bound` bytes at the start; its own tables are added to `taken`.  False: the smallest
 * are too large. */
bool shape_fit(const struct options *options, uint64_t bound, struct shape shapes[OFFHEAP_SECTIONS], uint64_t *taken,
               bool *smaller);

/* Several threads append to such a section: it is populated step by step.  Others are hash tables, whole from the
 * start. */
bool shape_appends(enum offheap_section_id section);

/* Rows of COUNTERS for a stack. */
uint32_t shape_shards(const struct options *options);

#endif
