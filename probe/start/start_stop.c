/*
 * Start and stop.
 *
 *            start                     stop
 *   IDLE ------------> RECORDING -----------------> STOPPING ------------------------> IDLE
 *    |  live file, tables,         hooks let go: what       GOTs restored, last methods
 *    |  sampler, GOTs              is live stays as it is   named, nobody inside, unmap
 *    |
 *    |  The GOTs change while hooks only pass on: no hook may record the malloc of one module without another's free.
 *    |
 *    +-- a preloaded probe whose process asks for no recording stays here
 *
 * A child forked while its parent records keeps the state RECORDING forever, and records nothing (guard_is_recording).
 * The child has no agent thread, must not write into its parent's recording, and inherits locks that the parent's
 * other threads hold and that nobody unlocks.
 */
#define _GNU_SOURCE
#include "start/start_stop.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "errors.h"
#include "guard/guard.h"
#include "hooks/got.h"
#include "hooks/hooks.h"
#include "hooks/next_allocator.h"
#include "java_heap/java_heap.h"
#include "jvm/agent.h"
#include "jvm/method_names.h"
#include "jvm/properties.h"
#include "platform/system.h"
#include "sampling/budget.h"
#include "sampling/sampler.h"
#include "sampling/stack_memo.h"
#include "start/listening.h"
#include "store/image_files.h"
#include "store/live_file.h"
#include "store/modules.h"
#include "store/ranges.h"
#include "store/stacks.h"
#include "store/strings.h"
#include "store/table.h"
#include "store/table_growth.h"
#include "store/threads.h"

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* start and stop, one at a time */

static void cover(enum offheap_entry entry) {
    uint64_t coverage = OFFHEAP_NO_JVM;
    if (!hooks_preloaded()) coverage |= OFFHEAP_BEFORE_ATTACH | OFFHEAP_NO_DLSYM | OFFHEAP_NO_LDSO;
    if (hooks_preloaded() && entry != OFFHEAP_PRELOAD) coverage |= OFFHEAP_BEFORE_ATTACH | OFFHEAP_WAS_IDLE;
    const struct module *libc = module_of((uintptr_t)getauxval), *allocator = module_of((uintptr_t)next.malloc);
    if (libc && allocator != libc) coverage |= OFFHEAP_CHAINED;
    live_cover(coverage, 0);
}

static void describe_process(void) {
    properties_of_process();
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        live_property("exe", path);
    }
}

static int start(const struct options *options, enum offheap_entry entry) {
    if (guard_state() == GUARD_RECORDING) return guard_is_recording() ? PROBE_ALREADY_RECORDING : PROBE_FORKED;
    if (!guard_prepare()) return PROBE_CANNOT_MAP;
    next_resolve();
    listening_begin();
    /* A thread that an earlier probe_stop did not wait for may still use the tables that the code below makes anew. */
    if (!guard_wait_until_outside()) return PROBE_BUSY;
    live_file_close(); /* the file of a recording that ended with a VM, or that a thread still used */
    int error = live_file_create(options, entry, stack_memo_bytes());
    if (error) return error;
    budget_describe(live, options);
    bool exact = options->interval == 0;
    bool tables =
        table_start(LIVE_ROWS(uint64_t, OFFHEAP_KEYS), LIVE_ROWS(struct offheap_value, OFFHEAP_VALUES),
                    live->sections[OFFHEAP_KEYS].capacity, live_most_blocks(), exact) &&
        ranges_start(LIVE_ROWS(struct offheap_range, OFFHEAP_RANGES), live->sections[OFFHEAP_RANGES].capacity) &&
        stacks_start(live->sections[OFFHEAP_STACKS].capacity) && strings_start(exact);
    if (!tables) {
        table_stop();
        live_file_close();
        live_file_remove();
        return PROBE_CANNOT_MAP;
    }
    growth_start(options);
    threads_start();
    methods_start(); /* before the first sample: hooks queue methods */
    modules_start();
    modules_register_all();
    image_files_start();
    cover(entry);
    describe_process();
    budget_start();
    java_heap_request(options);
    sampler_start(options->least, (uint8_t)live->interval_code, options->seed);
    __atomic_store_n(&live->state, OFFHEAP_RECORDING, __ATOMIC_RELEASE);
    bool patched = hooks_preloaded() || got_patch(hooks_to_patch(exact)) >= 0;
    guard_set_state(GUARD_RECORDING);
    if (!patched) return PROBE_CANNOT_PATCH; /* probe_start undoes the rest */
    listening_modules_changed();             /* modules of a dlopen since the registration */
    if (entry != OFFHEAP_PRELOAD) agent_start();
    return PROBE_OK;
}

static int stop(void) {
    if (!guard_is_recording()) return PROBE_NOT_RECORDING;
    guard_set_state(GUARD_STOPPING);
    sampler_stop();
    table_stop();
    bool outside = guard_wait_until_outside(); /* from now on no hook finds a new method */
    if (!hooks_preloaded()) got_restore();
    agent_stop();
    guard_set_state(GUARD_IDLE);
    outside = outside && guard_wait_until_outside();
    image_files_stop();
    budget_settle();
    live->stop_monotonic_ns = system_monotonic_ns();
    __atomic_store_n(&live->state, OFFHEAP_STOPPED, __ATOMIC_RELEASE);
    /* A thread that is still inside (preempted, or stopped in a debugger) would fault without the mapping, so the
     * mapping stays: some MiB of address space. */
    if (outside) live_file_close();
    return hooks_preloaded() ? PROBE_PRELOADED : PROBE_OK;
}

int probe_start(const struct options *options, enum offheap_entry entry) {
    pthread_mutex_lock(&starting);
    int error = start(options, entry);
    pthread_mutex_unlock(&starting);
    if (error == PROBE_CANNOT_PATCH) {
        probe_stop();
        live_file_remove();
    }
    return error;
}

int probe_stop(void) {
    pthread_mutex_lock(&starting);
    int error = stop();
    pthread_mutex_unlock(&starting);
    return error;
}

void probe_keep(void) {
    if (!guard_enter()) return;
    live->kept = 1;
    live->recorder_pid = 0;
    guard_leave();
}
