#define _GNU_SOURCE
#include "start/end.h"

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard.h"
#include "platform/system.h"
#include "sampling/budget.h"
#include "sampling/sampler.h"
#include "store/live_file.h"
#include "store/stacks.h"

/*
 * A start script runs the JVM for a moment, to learn its version for example; each such run would leave 4 MiB of shared
 * memory.  A recording with so few samples is worth nothing, unless an option asks for it: exact mode, a place, a
 * recorder, or `keep`.
 */
static bool is_not_worth_keeping(void) {
    enum { SECONDS = 10, SAMPLES = 1000 };
    if (live->kept || live->recorder_pid || live->mode == OFFHEAP_EXACT) return false;
    if (live->stop_monotonic_ns - live->start_monotonic_ns > SECONDS * UINT64_C(1000000000)) return false;
    return stacks_samples(SAMPLES) < SAMPLES;
}

__attribute__((destructor)) void probe_end(void) {
    if (!guard_enter()) return;
    budget_settle();
    live->stop_monotonic_ns = system_monotonic_ns();
    uint32_t recording = OFFHEAP_RECORDING;
    if (__atomic_compare_exchange_n(&live->state, &recording, OFFHEAP_EXITED, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED) &&
        is_not_worth_keeping())
        live_file_remove();
    guard_leave();
    /* The hooks and the mapping stay: threads may be inside. */
    guard_set_state(GUARD_IDLE);
    sampler_stop();
}
