/* The live file from inside: creates it, appends to its sections, counts losses. */
#ifndef OFFHEAP_LIVE_FILE_H
#define OFFHEAP_LIVE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "recording.h"

/* The mapped file; NULL while nothing records.  Hooks may use it only between guard_enter and guard_leave: a stop
 * unmaps it when no thread is inside. */
extern struct offheap_header *live __attribute__((visibility("hidden")));

/* Creates and maps the file that `options` request.  `taken`: bytes that the probe already takes.  Returns enum
 * probe_error. */
int live_file_create(const struct options *options, enum offheap_entry entry, uint64_t taken);
/* After PROBE_CANNOT_CREATE: the path of the file ("" if each path is too long), and the errno. */
const char *live_file_refused(int *error);
/* Unmaps the file, but does not unlink it. */
void live_file_close(void);
/* Unlinks the file: after a start-up that failed, or because the recording is not worth keeping. */
void live_file_remove(void);

/* Rows that the live table can grow to. */
uint64_t live_most_blocks(void);
/* Lengthens the file.  Returns the offset of the new part, or -1.  Populate the part before any access. */
int64_t live_extend(uint64_t bytes);
/* Makes at most `bytes` from an offset on safe to write.  Returns how many, 0 when the file system is full. */
uint64_t live_populate_at(uint64_t offset, uint64_t bytes);
/* Tells readers of a segment of the live table.  False: there is no room for its row. */
bool live_publish_segment(uint64_t offset, uint64_t rows);

/* First row of a section, as `type *`. */
#define LIVE_ROWS(type, section) ((type *)((char *)live + live->sections[section].offset))

/* Reserves `rows` consecutive rows of an append-only section that several threads fill.  Returns the first row, or -1
 * when the section is full or cannot be populated.  Readers use the rows once a complete row refers to them
 * (recording.h). */
int64_t live_reserve(enum offheap_section_id section, uint64_t rows);

/* Makes the first `rows` rows of a lazily populated section safe to write.  False: the file system is full, or the
 * memory bound is reached. */
bool live_populate(enum offheap_section_id section, uint64_t rows);

/* Bytes that are safe to touch, from the start of the section. */
uint64_t live_populated(enum offheap_section_id section);

/* Counts one loss. */
void live_lose(enum offheap_loss loss);
/* Sets and clears bits of header.coverage (enum offheap_coverage). */
void live_cover(uint64_t add, uint64_t remove);

/* Ticks (10 ms) since the start; coarse clock, a few ns. */
uint32_t live_tick(void);

#endif
