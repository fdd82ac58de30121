/* How the live table grows: step by step, by the threads that put blocks into it. */
#ifndef OFFHEAP_TABLE_GROWTH_H
#define OFFHEAP_TABLE_GROWTH_H

#include "options.h"
#include "store/table.h"

/* Call for a new recording, after live_file_create. */
void growth_start(const struct options *options);

/* Call for a block for which growth_due is true, between guard_enter and guard_leave.  If the table fills up, this
 * prepares a part (64 or 128 KiB) of its next segment, in about 0.1 ms.  When the whole segment is prepared, new blocks
 * go there. */
void growth_turn(void);

/* True for one block in 128, chosen by its address. */
static inline bool growth_due(const void *block) {
    return ((uint64_t)(uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 57 == 0;
}

/* Call for a block without a place: takes a turn, or waits briefly for the thread that has the turn.  `waiting_since`
 * is 0 at the first call.  False: the block is lost, because the table may not grow or half a millisecond has passed
 * since the first call. */
bool growth_makes_room(uint64_t *waiting_since);

#endif
