/*
 * The first allocation of the process wakes a preloaded probe, or else the library's constructor does.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "errors.h"
#include "guard/guard.h"
#include "guard/thread_state.h"
#include "hooks/hooks.h"
#include "hooks/next_allocator.h"
#include "jvm/agent.h"
#include "platform/compiler.h"
#include "platform/elf_image.h"
#include "sampling/sampler.h"
#include "sampling/wake.h"
#include "start/complaint.h"
#include "start/environment.h"
#include "start/listening.h"
#include "start/start_stop.h"

/* Only a preloaded (or linked) image stands before libc's in search order. */
static bool came_first(void) {
    for (const struct link_map *image = _r_debug.r_map; image; image = image->l_next) {
        void *found = elf_symbol(image, "malloc");
        if (found) return found == hook_of("malloc");
    }
    return false;
}

static bool wake_up(void) {
    next_resolve();
    if (!came_first()) return false; /* -agentpath or attach: the entry points start it */
    hooks_note_preload();
    listening_begin();
    if (getauxval(AT_SECURE)) return false;
    const char *text = getenv("OFFHEAP");
    struct options options;
    int error = options_parse(&options, text ? text : "");
    if (error) {
        probe_complain(error);
        return false;
    }
    bool java = environment_is_java();
    if (options.search && !java) {
        /* This is a shell between `offheap run` and its JVM: the variables stay for the programs that it starts. */
        if ((uint64_t)getppid() != options.search) return false;
    } else if (!options.follow) {
        if (java) environment_leave_later();
        else environment_leave();
    }
    error = probe_start(&options, OFFHEAP_PRELOAD);
    if (error) probe_complain(error);
    return error == PROBE_OK;
}

extern char **environ;

bool probe_wake(void) {
    static atomic_bool awake;
    /* The dynamic linker calls these hooks before libc has its environment. */
    if (likely(atomic_load_explicit(&awake, memory_order_acquire)) || !environ || self.inside) return false;
    if (atomic_exchange(&awake, true)) return false;
    self.inside = THREAD_INSIDE;
    bool started = wake_up();
    self.inside = THREAD_OUTSIDE;
    sampler_rest();
    return started;
}

/* The agent thread starts here, not at the first allocation, which may be the dynamic linker's own. */
__attribute__((constructor)) static void on_load(void) {
    probe_wake();
    if (guard_is_recording() && environment_is_java()) agent_start();
}
