/* table_scenarios: what the threads of table_model.c do with the table. */
#ifndef TABLE_SCENARIOS_H
#define TABLE_SCENARIOS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SLOTS = 4, /* in a segment */
    ALL = 2 * SLOTS,
    THREADS = 3, /* two that change the table, one that reads it */
    READER = 2,
    KEYS = 4,
    STEPS = 64,  /* most steps of one operation */
    PENDING = 4, /* most stores of a thread that are not visible yet */
};

enum verb { INSERT = 1, REMOVE, REMOVE_ANY /* may find none */, INSERT_ANY /* may find no room */, AWAIT, GROW };

struct op {
    uint8_t verb, key, turn; /* AWAIT: the other thread has done `turn` operations */
};

struct scenario {
    const char *name;
    struct op before[4]; /* done before the threads begin */
    struct op threads[2][4];
    int untouched; /* key that the reader must see, or -1 */
    bool grows;    /* the reader reads slots of the second segment, too */
};

static const struct scenario scenarios[] = {
    {"a free that was not seen", {{INSERT, 0, 1}}, {{{INSERT, 0, 2}, {INSERT, 0, 3}}, {{0}}}, -1},
    {"freed twice at once", {{INSERT, 1, 1}, {INSERT, 0, 1}}, {{{REMOVE_ANY, 0, 1}}, {{REMOVE_ANY, 0, 1}}}, 1},
    {"full", {{INSERT, 0, 1}, {INSERT, 1, 1}, {INSERT, 2, 1}}, {{{INSERT_ANY, 3, 1}}, {{REMOVE, 0, 1}}}, 2},
    {"freed by another thread, and its address given out again",
     {{0}},
     {{{INSERT, 0, 1}, {INSERT, 1, 1}}, {{AWAIT, 0, 1}, {REMOVE, 0, 1}, {INSERT, 0, 2}}},
     -1},
    {"neighbours", {{INSERT, 2, 1}}, {{{INSERT, 0, 1}, {REMOVE, 0, 1}}, {{INSERT, 1, 1}, {REMOVE, 1, 1}}}, 2},
    {"a segment comes under a thread that inserts and removes",
     {{INSERT, 2, 1}},
     {{{GROW, 0, 0}}, {{INSERT, 0, 1}, {REMOVE, 0, 1}, {INSERT, 1, 1}}},
     2,
     true},
    {"freed by the thread that made the segment",
     {{0}},
     {{{GROW, 0, 0}, {AWAIT, 0, 1}, {REMOVE, 0, 1}, {INSERT, 0, 2}}, {{INSERT, 0, 1}, {INSERT, 1, 1}}},
     -1,
     true},
    {"a free that was not seen before the segment came",
     {{INSERT, 0, 1}, {INSERT, 2, 1}},
     {{{GROW, 0, 0}, {INSERT, 1, 1}}, {{INSERT, 0, 2}, {REMOVE, 0, 2}}},
     2,
     true},
    {"full until a segment comes",
     {{INSERT, 0, 1}, {INSERT, 1, 1}, {INSERT, 2, 1}},
     {{{GROW, 0, 0}, {REMOVE, 0, 1}}, {{INSERT_ANY, 3, 1}}},
     2,
     true},
};

#endif
