#define _GNU_SOURCE
#include "store/threads.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>

#include "guard/guard.h"
#include "guard/thread_state.h"
#include "platform/compiler.h"
#include "platform/system.h"
#include "store/live_file.h"

enum { SLOTS = 1 << 16 }; /* at least four for each row of THREADS */

/* Row by hash of the name; 0 free.  One writer wins a slot by CAS. */
static _Atomic uint16_t *rows_by_name;

/* Counts recordings: a thread's row of an earlier recording is invalid. */
static _Atomic uint32_t recording;

void threads_start(void) {
    if (rows_by_name) memset((void *)rows_by_name, 0, SLOTS * sizeof *rows_by_name);
    else rows_by_name = system_pages(SLOTS * sizeof *rows_by_name);
    atomic_fetch_add(&recording, 1);
}

static uint32_t hash_name(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash ^ hash >> 16;
}

/* "pool-7-thread-12" -> "pool-#-thread-#" */
static void collapse_digits(char *name) {
    char *to = name;
    for (const char *from = name; *from; from++) {
        bool digit = *from >= '0' && *from <= '9';
        if (!digit) *to++ = *from;
        else if (to == name || to[-1] != '#') *to++ = '#';
    }
    *to = 0;
}

static uint16_t row_of(char *name) {
    if (!rows_by_name || !*name) return 0;
    struct offheap_thread *rows = LIVE_ROWS(struct offheap_thread, OFFHEAP_THREADS);
    const struct offheap_section *section = &live->sections[OFFHEAP_THREADS];
    /* Threads with ever new numbers in their names would fill the table, so its last quarter is for families of
     * names. */
    if (__atomic_load_n(&section->used, __ATOMIC_RELAXED) > section->capacity / 4 * 3) collapse_digits(name);
    uint32_t hash = hash_name(name);
    int64_t mine = -1;
    for (uint32_t i = 0; i < 64; i++) {
        _Atomic uint16_t *slot = &rows_by_name[(hash + i) & (SLOTS - 1)];
        uint16_t row = atomic_load_explicit(slot, memory_order_acquire);
        if (row == 0) {
            if (mine < 0) {
                mine = live_reserve(OFFHEAP_THREADS, 1);
                if (mine < 0) break;
                memcpy(rows[mine].name, name, strlen(name) + 1);
                __atomic_store_n(&rows[mine].tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
            }
            if (atomic_compare_exchange_strong_explicit(slot, &row, (uint16_t)mine, memory_order_release,
                                                        memory_order_acquire))
                return (uint16_t)mine;
        }
        if (strcmp(rows[row].name, name) == 0) return row;
    }
    live_lose(OFFHEAP_LOST_THREADS);
    return 0;
}

/* The age of a settled name, which the probe does not read again. */
enum { SETTLED = UINT8_MAX };

/* The JVM's own threads (compilers, collectors) name themselves after a few allocations; before that they have the
 * name of the thread that started them.  So the probe reads the name again at the 1st, 2nd, 4th ... 128th block. */
uint16_t thread_row(void) {
    uint32_t present = atomic_load_explicit(&recording, memory_order_relaxed);
    bool known = self.thread && self.thread_recording == present;
    if (likely(known && self.name_age == SETTLED)) return self.thread;
    self.name_age = known ? (uint8_t)(self.name_age + 1) : 0;
    if (known && self.name_age & (self.name_age - 1)) return self.thread;
    char name[64] = "";
    prctl(PR_GET_NAME, name);
    self.thread = row_of(name);
    self.thread_recording = present;
    return self.thread;
}

void thread_rename(const char *name) {
    char copy[sizeof((struct offheap_thread *)0)->name];
    if (!guard_enter()) return;
    strncpy(copy, name, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    self.thread = row_of(copy);
    self.thread_recording = atomic_load_explicit(&recording, memory_order_relaxed);
    self.name_age = SETTLED;
    guard_leave();
}
