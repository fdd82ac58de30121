/* How the live table grows: step by step, by the threads that put blocks into it. */
#ifndef OFFHEAP_TABLE_GROWTH_H
#define OFFHEAP_TABLE_GROWTH_H

#include "options.h"
#include "store/table.h"

/* Call for a new recording, after live_file_create. */
void growth_start(const struct options *options);

/* Call for a block of which growth_due is true, between guard_enter and guard_leave.  If the table fills up, this
 * prepares a part (64 or 128 KiB) of its next segment, in 0.1 ms or so.  When the whole segment is prepared, new
 * blocks go there. */
void growth_turn(void);

/* One block in 128, chosen by its address. */
static inline bool growth_due(const void *block) {
    return ((uint64_t)(uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 57 == 0;
}

/* Call for a block that found no place: it takes a turn, or waits shortly for the thread that has the turn.  False:
 * the block is lost, since the table may not grow, or half a millisecond has gone by since the first call, which had
 * 0. */
bool growth_makes_room(uint64_t *waiting_since);

#endif
