#define _GNU_SOURCE
#include "start/listening.h"

#include <stdbool.h>

#include "guard/guard.h"
#include "hooks/dl_hooks.h"
#include "hooks/got.h"
#include "hooks/hooks.h"
#include "java_heap/java_heap.h"
#include "jvm/agent.h"
#include "jvm/bell.h"
#include "jvm/jvm_start.h"
#include "platform/system.h"
#include "sampling/budget.h"
#include "start/end.h"
#include "start/environment.h"
#include "store/image_files.h"
#include "store/live_file.h"
#include "store/modules.h"

void listening_modules_changed(void) {
    if (!guard_enter()) return;
    modules_register_all();
    image_files_follow();
    guard_leave();
    got_follow(); /* a preloaded probe has patched nothing */
}

static void modules_closed(void) {
    if (!guard_enter()) return;
    modules_forget_closed();
    guard_leave();
}

static void jvm_loading(void) {
    environment_leave_if_due();
    if (guard_is_recording()) agent_start();
}

static bool hands_out_hooks(void) { return hooks_preloaded() || guard_state() == GUARD_RECORDING; }

static void *create_vm(void *found) { return jvm_start_intercept(found, agent_vm_live); }

/* Tells readers that the process lives, and does regular work even if no thread allocates. */
static void tick(void) {
    if (!guard_enter()) return;
    __atomic_store_n(&live->heartbeat_ns, system_monotonic_ns(), __ATOMIC_RELAXED);
    budget_adjust();
    image_files_settle();
    guard_leave();
}

static const struct dl_listener listener = {
    .jvm_loading = jvm_loading,
    .modules_coming = bell_ring, /* the agent looks for new modules when the dlopen has ended */
    .modules_changed = listening_modules_changed,
    .modules_closed = modules_closed,
    .hands_out_hooks = hands_out_hooks,
    .hook_of = hook_of,
    .create_vm = create_vm,
};

static const struct agent_duties duties = {
    .modules_changed = listening_modules_changed,
    .tick = tick,
    .vm_met = java_heap_begin,
    .vm_tick = java_heap_tick,
    .vm_left = java_heap_end,
    .vm_died = probe_end,
};

void listening_begin(void) {
    dl_hooks_serve(&listener);
    agent_serve(&duties);
}
