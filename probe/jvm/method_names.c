#define _GNU_SOURCE
#include "jvm/method_names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guard/guard.h"
#include "guard/thread_state.h"
#include "jvm/bell.h"
#include "jvm/method_ids.h"
#include "store/live_file.h"
#include "store/strings.h"

enum { FARTHEST = 64 }; /* slots to try before the table counts as full */

/* Slots without a name, newest first, linked through offheap_method.reserved; 0 ends the list.  Hooks push one, the
 * agent thread takes all: neither waits, and there is no ABA problem. */
static _Atomic uint32_t unnamed;

void methods_start(void) { atomic_store(&unnamed, 0); }

static void push(struct offheap_method *row, uint32_t slot) {
    uint32_t next = atomic_load_explicit(&unnamed, memory_order_relaxed);
    do row->reserved = next;
    while (!atomic_compare_exchange_weak_explicit(&unnamed, &next, slot, memory_order_release, memory_order_relaxed));
    if (next == 0) bell_ring(); /* otherwise the thread that pushed the first slot rings */
}

uint32_t method_slot(jmethodID method) {
    uint64_t id = (uint64_t)(uintptr_t)method, none;
    struct offheap_method *rows = LIVE_ROWS(struct offheap_method, OFFHEAP_METHODS);
    uint64_t slots = live->sections[OFFHEAP_METHODS].capacity - 1; /* slot 0 is reserved */
    uint64_t hash = id * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    for (uint64_t i = 0; id && i < FARTHEST; i++) {
        uint32_t slot = 1 + (uint32_t)((hash + i) % slots);
        struct offheap_method *row = &rows[slot];
        none = __atomic_load_n(&row->id, __ATOMIC_RELAXED);
        if (none == id) return slot;
        if (none != 0) continue;
        if (__atomic_compare_exchange_n(&row->id, &none, id, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_store_n(&row->state, OFFHEAP_METHOD_SEEN, __ATOMIC_RELEASE);
            __atomic_fetch_add(&live->sections[OFFHEAP_METHODS].used, 1, __ATOMIC_RELAXED);
            push(row, slot);
            return slot;
        }
        if (none == id) return slot;
    }
    live_lose(OFFHEAP_LOST_METHODS);
    return 0;
}

static uint32_t intern(const char *text) { return text ? live_string(text, strlen(text)) : 0; }

static int by_start(const void *left, const void *right) {
    uint32_t a = ((const struct offheap_line *)left)->start, b = ((const struct offheap_line *)right)->start;
    return (a > b) - (a < b);
}

/* A class file may list a method's lines in any order, and in several attributes. */
static void write_lines(struct offheap_method *row, const jvmtiLineNumberEntry *entries, jint count) {
    int64_t first = count > 0 ? live_reserve(OFFHEAP_LINES, (uint64_t)count) : -1;
    if (first < 0) return;
    struct offheap_line *lines = LIVE_ROWS(struct offheap_line, OFFHEAP_LINES) + first;
    for (jint i = 0; i < count; i++)
        lines[i] = (struct offheap_line){(uint32_t)entries[i].start_location, (uint32_t)entries[i].line_number};
    qsort(lines, (size_t)count, sizeof *lines, by_start);
    row->lines = (uint32_t)first;
    row->line_count = (uint32_t)count;
}

struct names {
    char *class_signature, *name, *signature, *source_file;
    jvmtiLineNumberEntry *lines;
    jint line_count;
};

/* The local reference to the class prevents its unloading between these calls. */
static bool ask(jvmtiEnv *jvmti, JNIEnv *env, jmethodID method, struct names *names) {
    jclass class = NULL;
    if (jvmti_method_class(jvmti, method, &class) != JNI_OK || !class) return false;
    bool found = jvmti_class_signature(jvmti, class, &names->class_signature) == JNI_OK &&
                 jvmti_method_name(jvmti, method, &names->name, &names->signature) == JNI_OK;
    if (found) {
        /* A class compiled without debug information has neither; a native method has no lines. */
        if (jvmti_source_file(jvmti, class, &names->source_file) != JNI_OK) names->source_file = NULL;
        if (jvmti_line_table(jvmti, method, &names->line_count, &names->lines) != JNI_OK) {
            names->lines = NULL;
            names->line_count = 0;
        }
    }
    jni_delete_local_ref(env, class);
    return found;
}

static void name_one(jvmtiEnv *jvmti, JNIEnv *env, struct offheap_method *row) {
    struct names names = {0};
    uint32_t state = OFFHEAP_METHOD_UNLOADED;
    jmethodID method = (jmethodID)(uintptr_t)row->id;
    if (method_id_sound(method) && ask(jvmti, env, method, &names)) {
        row->class_signature = intern(names.class_signature);
        row->name = intern(names.name);
        row->signature = intern(names.signature);
        row->source_file = intern(names.source_file);
        write_lines(row, names.lines, names.line_count);
        state = OFFHEAP_METHOD_NAMED;
    }
    __atomic_store_n(&row->state, state, __ATOMIC_RELEASE);
    void *taken[] = {names.class_signature, names.name, names.signature, names.source_file, names.lines};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (taken[i]) jvmti_deallocate(jvmti, taken[i]);
}

void methods_name(jvmtiEnv *jvmti, JNIEnv *env) {
    if (atomic_load_explicit(&unnamed, memory_order_relaxed) == 0) return;
    /* Enters the probe, so that JVMTI's own allocations are not samples and the live file stays mapped. */
    if (!guard_enter_to_describe()) return;
    self.inside = THREAD_OWN_DOING; /* JVMTI allocates the names, and the probe frees them */
    struct offheap_method *rows = LIVE_ROWS(struct offheap_method, OFFHEAP_METHODS);
    for (uint32_t slot = atomic_exchange_explicit(&unnamed, 0, memory_order_acquire), next; slot; slot = next) {
        next = rows[slot].reserved;
        rows[slot].reserved = 0;
        name_one(jvmti, env, &rows[slot]);
    }
    guard_leave();
}
