/*
 * Start and stop.
 *
 *            start                     stop
 *   IDLE ------------> RECORDING -----------------> STOPPING ------------------------> IDLE
 *    |  live file, tables,         hooks let go: what       GOTs restored, last methods
 *    |  sampler, GOTs              is live stays as it is   named, nobody inside, unmap
 *    |
 *    |  The GOTs change while hooks only pass on: a module's malloc must not be seen where another's free is not.
 *    |
 *    +-- a preloaded probe whose process asked for nothing stays here
 *
 * A child that was forked while its parent recorded stays RECORDING and never does (probe_is_recording): it
 * shares neither the agent thread nor the right to write into its parent's recording, and what its parent's
 * other threads held at that moment is held for ever.
 */
#define _GNU_SOURCE
#include "start/probe.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampling/budget.h"
#include "platform/elf_image.h"
#include "start/environment.h"
#include "hooks/got.h"
#include "store/growth.h"
#include "hooks/hooks.h"
#include "store/image_files.h"
#include "jvm/java.h"
#include "store/live_file.h"
#include "jvm/methods.h"
#include "store/modules.h"
#include "hooks/next.h"
#include "jvm/properties.h"
#include "store/ranges.h"
#include "sampling/sampler.h"
#include "store/stacks.h"
#include "platform/system.h"
#include "store/table.h"
#include "store/threads.h"

_Atomic int probe_state;

static struct {
    pthread_mutex_t starting; /* start and stop, one at a time */
    bool preloaded;
    bool leave_environment; /* when the JVM comes */
    struct options options;
} probe = {.starting = PTHREAD_MUTEX_INITIALIZER};

/* Wiped to 0 in a forked child by the kernel (MADV_WIPEONFORK): also after a raw clone that runs no
 * atfork handler, and not in a vfork child, which allocates for its parent. */
static _Atomic int *owner;

/*
 * Who is inside.  A lane belongs to the first thread that came by it, known by the address of its
 * thread-local storage, which no two living threads share; a later thread that gets a dead one's storage
 * gets its lane as well.  The owner counts with plain loads and stores, and instead of a fence on
 * every entry there is one membarrier(2) in probe_stop.  Whoever finds its lane taken counts beside the
 * owner, atomically.
 */
enum { LANES = 256 };
static struct lane {
    _Alignas(64) _Atomic(struct sampler *) thread;
    _Atomic int32_t of_owner, of_others;
} lanes[LANES];

static bool have_membarrier;

static struct lane *my_lane(void) {
    return &lanes[(uint32_t)((uintptr_t)&sampler >> 6) * UINT32_C(2654435761) >> 24];
}

static bool owns(struct lane *lane) {
    struct sampler *thread = atomic_load_explicit(&lane->thread, memory_order_relaxed);
    if (likely(thread == &sampler)) return true;
    if (thread || !have_membarrier) return false;
    /* It fails against another thread, or a signal handler of this one, which has then done it. */
    return atomic_compare_exchange_strong(&lane->thread, &thread, &sampler) || thread == &sampler;
}

/* A signal handler in between finds and leaves the count as it was, so that no increment is lost. */
static void count_owner(struct lane *lane, int32_t change) {
    int32_t count = atomic_load_explicit(&lane->of_owner, memory_order_relaxed);
    atomic_store_explicit(&lane->of_owner, count + change, memory_order_release);
}

static void go_out(void) {
    struct lane *lane = my_lane();
    if (likely(atomic_load_explicit(&lane->thread, memory_order_relaxed) == &sampler)) count_owner(lane, -1);
    else atomic_fetch_sub_explicit(&lane->of_others, 1, memory_order_release);
}

static bool come_in(bool stopping_as_well) {
    struct lane *lane = my_lane();
    if (likely(owns(lane))) {
        count_owner(lane, 1);
        /* Nothing for the processor: probe_stop's membarrier orders the count before this look at the state. */
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        /* Sequentially consistent with probe_stop's store of the state and its look at the lanes. */
        atomic_fetch_add(&lane->of_others, 1);
    }
    int state = atomic_load(&probe_state);
    if (likely((state == PROBE_RECORDING || (stopping_as_well && state == PROBE_STOPPING)) &&
               atomic_load_explicit(owner, memory_order_relaxed)))
        return true;
    go_out();
    return false;
}

bool probe_enter(void) {
    if (sampler.inside || atomic_load_explicit(&probe_state, memory_order_relaxed) != PROBE_RECORDING) return false;
    sampler.inside = 1;
    if (come_in(false)) return true;
    sampler.inside = 0;
    return false;
}

bool probe_enter_to_describe(void) {
    if (sampler.inside || atomic_load_explicit(&probe_state, memory_order_relaxed) == PROBE_IDLE) return false;
    sampler.inside = 1;
    if (come_in(true)) return true;
    sampler.inside = 0;
    return false;
}

void probe_leave(void) {
    go_out();
    sampler.inside = 0;
}

int probe_lane(void) {
    struct lane *lane = my_lane();
    return atomic_load_explicit(&lane->thread, memory_order_relaxed) == &sampler ? (int)(lane - lanes) : -1;
}

bool probe_enter_to_forget(void) {
    return atomic_load_explicit(&probe_state, memory_order_relaxed) == PROBE_RECORDING && come_in(false);
}

void probe_leave_forgetting(void) { go_out(); }

bool probe_is_recording(void) {
    return atomic_load_explicit(&probe_state, memory_order_relaxed) == PROBE_RECORDING &&
           atomic_load_explicit(owner, memory_order_relaxed);
}

bool probe_is_preloaded(void) { return probe.preloaded; }

bool probe_hands_out_hooks(void) {
    return probe.preloaded || atomic_load_explicit(&probe_state, memory_order_relaxed) == PROBE_RECORDING;
}

static void forget_fork(void) {
    if (owner) atomic_store(owner, 0);
}

static bool own_process(void) {
    if (owner) {
        atomic_store(owner, 1); /* the page may be of a parent that had stopped recording */
        return true;
    }
    void *page = system_pages(4096);
    if (!page) return false;
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
    if (madvise(page, 4096, MADV_WIPEONFORK) != 0) pthread_atfork(NULL, NULL, forget_fork); /* before Linux 4.14 */
    owner = page;
    atomic_store(owner, 1);
    return true;
}

/* membarrier(2): its header came with Linux 4.3, the commands with 4.14. */
enum { BARRIER_PRIVATE_EXPEDITED = 1 << 3, BARRIER_REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

#ifndef SYS_membarrier
#if defined(__x86_64__)
#define SYS_membarrier 324
#else
#define SYS_membarrier 283
#endif
#endif

static bool membarrier(int command) { return syscall(SYS_membarrier, command, 0) == 0; }

/* Asked once: whether lanes have owners must not change while a thread is inside.  A seccomp filter
 * that forbids it costs speed and no more. */
static void ask_for_membarrier(void) {
    static bool asked;
    if (!asked) have_membarrier = membarrier(BARRIER_REGISTER_PRIVATE_EXPEDITED);
    asked = true;
}

static void cover(enum offheap_entry entry) {
    uint64_t coverage = OFFHEAP_NO_JVM;
    if (!probe.preloaded) coverage |= OFFHEAP_BEFORE_ATTACH | OFFHEAP_NO_DLSYM | OFFHEAP_NO_LDSO;
    if (probe.preloaded && entry != OFFHEAP_PRELOAD) coverage |= OFFHEAP_BEFORE_ATTACH | OFFHEAP_WAS_IDLE;
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

/* Waits until every hook has let go of the live file.  Without the barrier it is not known who is inside. */
static bool wait_until_outside(void) {
    if (have_membarrier && !membarrier(BARRIER_PRIVATE_EXPEDITED)) return false;
    for (int round = 0; round < 2000; round++) {
        bool inside = false;
        for (int i = 0; i < LANES; i++)
            inside |= atomic_load(&lanes[i].of_owner) != 0 || atomic_load(&lanes[i].of_others) != 0;
        if (!inside) return true;
        usleep(1000);
    }
    return false;
}

static int start(const struct options *options, enum offheap_entry entry) {
    if (atomic_load(&probe_state) == PROBE_RECORDING)
        return probe_is_recording() ? PROBE_ALREADY_RECORDING : PROBE_FORKED;
    if (!own_process()) return PROBE_CANNOT_MAP;
    next_resolve();
    ask_for_membarrier();
    /* A thread that probe_stop gave up waiting for may still be in the tables that are made anew below. */
    if (!wait_until_outside()) return PROBE_BUSY;
    live_file_close(); /* of a recording that ended with a VM, or that a thread had not let go of */
    int error = live_file_create(options, entry);
    if (error) return error;
    bool exact = options->interval == 0;
    bool tables = table_start(LIVE_ROWS(uint64_t, OFFHEAP_KEYS), LIVE_ROWS(struct offheap_value, OFFHEAP_VALUES),
                              live->sections[OFFHEAP_KEYS].capacity, live_most_blocks(), exact) &&
                  ranges_start(LIVE_ROWS(struct offheap_range, OFFHEAP_RANGES),
                               live->sections[OFFHEAP_RANGES].capacity) &&
                  stacks_start(live->sections[OFFHEAP_STACKS].capacity);
    if (!tables) {
        table_stop();
        live_file_close();
        live_file_remove();
        return PROBE_CANNOT_MAP;
    }
    growth_start(options);
    threads_start();
    methods_start(); /* not later: hooks queue methods from the first sample on */
    modules_start();
    modules_register_all();
    image_files_start();
    cover(entry);
    describe_process();
    probe.options = *options;
    budget_start();
    sampler_start(options->least, (uint8_t)live->interval_code, options->seed);
    __atomic_store_n(&live->state, OFFHEAP_RECORDING, __ATOMIC_RELEASE);
    bool patched = probe.preloaded || got_patch(hooks_to_patch(exact)) >= 0;
    atomic_store(&probe_state, PROBE_RECORDING);
    if (!patched) return PROBE_CANNOT_PATCH; /* probe_start stops what has begun */
    probe_modules_changed(); /* what a dlopen brought meanwhile */
    if (entry != OFFHEAP_PRELOAD) agent_start();
    return PROBE_OK;
}

static int stop(void) {
    if (!probe_is_recording()) return PROBE_NOT_RECORDING;
    atomic_store(&probe_state, PROBE_STOPPING);
    sampler_stop();
    table_stop();
    bool outside = wait_until_outside(); /* nobody finds a new method any more */
    if (!probe.preloaded) got_restore();
    agent_stop();
    atomic_store(&probe_state, PROBE_IDLE);
    outside = outside && wait_until_outside();
    image_files_stop();
    budget_settle();
    live->stop_monotonic_ns = system_monotonic_ns();
    __atomic_store_n(&live->state, OFFHEAP_STOPPED, __ATOMIC_RELEASE);
    /* A thread that is still inside (preempted, or stopped in a debugger) would fault: then the
     * mapping stays, some MiB of address space. */
    if (outside) live_file_close();
    return probe.preloaded ? PROBE_PRELOADED : PROBE_OK;
}

int probe_start(const struct options *options, enum offheap_entry entry) {
    pthread_mutex_lock(&probe.starting);
    int error = start(options, entry);
    pthread_mutex_unlock(&probe.starting);
    if (error == PROBE_CANNOT_PATCH) {
        probe_stop();
        live_file_remove();
    }
    return error;
}

int probe_stop(void) {
    pthread_mutex_lock(&probe.starting);
    int error = stop();
    pthread_mutex_unlock(&probe.starting);
    return error;
}

void probe_modules_changed(void) {
    if (!probe_enter()) return;
    modules_register_all();
    image_files_follow();
    probe_leave();
    got_follow(); /* a preloaded probe has patched nothing */
}

void probe_modules_closed(void) {
    if (!probe_enter()) return;
    modules_forget_closed();
    probe_leave();
}

void probe_jvm_loading(void) {
    if (probe.leave_environment) {
        /* Only now: a launcher that executes itself again must still find the variables. */
        probe.leave_environment = false;
        environment_leave();
    }
    if (probe_is_recording()) agent_start();
}

/* Our image stands before libc's in search order only when we were preloaded (or linked). */
static bool came_first(void) {
    for (const struct link_map *image = _r_debug.r_map; image; image = image->l_next) {
        void *found = elf_symbol(image, "malloc");
        if (found) return found == hook_of("malloc");
    }
    return false;
}

static const char *why_not(int error) {
    switch (error) {
    case PROBE_BAD_OPTIONS: return "the OFFHEAP variable is not understood";
    case PROBE_NO_JVMTI: return "the JVM refuses a JVMTI environment";
    case PROBE_NO_SPACE: return "there is no room for the live file";
    case PROBE_CANNOT_CREATE: return "the live file cannot be made";
    case PROBE_NO_DESCRIPTOR: return "too many files are open";
    case PROBE_CANNOT_MAP: return "there is no address space for the live file";
    default: return "the probe cannot start";
    }
}

/* By hand, for snprintf may allocate. */
static void add_kib(char *line, uint64_t bytes) {
    char digits[24], *at = digits + sizeof digits;
    *--at = 0;
    uint64_t kib = bytes >> 10;
    do *--at = (char)('0' + kib % 10);
    while (kib /= 10);
    strcat(strcat(line, at), " KiB");
}

static void say_no_memory(char *line) {
    uint64_t bound, least;
    live_file_refused(&bound, &least);
    strcat(line, "the memory limit of its container grants the probe ");
    add_kib(line, bound);
    strcat(line, ", and it needs ");
    add_kib(line, least);
    strcat(line, ": raise the limit, or add the word force to OFFHEAP");
}

void probe_complain(int error) {
    char line[256] = "offheap: ";
    if (error == PROBE_NO_MEMORY) say_no_memory(line);
    else strcat(line, why_not(error));
    strcat(line, "; nothing is recorded\n");
    if (write(2, line, strlen(line)) < 0) return; /* no stderr: nobody to tell */
}

static bool wake_up(void) {
    next_resolve();
    if (!came_first()) return false; /* -agentpath or attach: the agent's entry points start it */
    probe.preloaded = true;
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
        /* A shell between `offheap run` and its JVM: the variables stay for what it starts. */
        if ((uint64_t)getppid() != options.search) return false;
    } else if (!options.follow) {
        if (java) probe.leave_environment = true;
        else environment_leave();
    }
    error = probe_start(&options, OFFHEAP_PRELOAD);
    if (error) probe_complain(error);
    return error == PROBE_OK;
}

extern char **environ;

bool probe_wake(void) {
    static atomic_bool awake;
    /* The dynamic linker allocates through us before libc has its environment. */
    if (likely(atomic_load_explicit(&awake, memory_order_acquire)) || !environ || sampler.inside) return false;
    if (atomic_exchange(&awake, true)) return false;
    sampler.inside = 1;
    bool started = wake_up();
    sampler.inside = 0;
    sampler_rest();
    return started;
}

/* Threads only now: the first allocation may be the dynamic linker's own. */
__attribute__((constructor)) static void on_load(void) {
    probe_wake();
    if (probe_is_recording() && environment_is_java()) agent_start();
}

/* For programs without a JVM to attach through: they dlopen the library and call these. */
EXPORT int offheap_start(const char *text) {
    struct options options;
    int error = options_parse(&options, text);
    return error ? error : probe_start(&options, OFFHEAP_ATTACH);
}

EXPORT int offheap_stop(void) { return probe_stop(); }

void probe_keep(void) {
    if (!probe_enter()) return;
    live->kept = 1;
    live->recorder_pid = 0;
    probe_leave();
}

/*
 * A start script runs the JVM for a moment, to ask it for its version say, and each time 4 MiB of shared memory
 * would stay.  What so few samples tell nobody looks for, unless it was asked for: every block, a place, `keep`.
 */
static bool is_not_worth_keeping(void) {
    enum { SECONDS = 10, SAMPLES = 1000 };
    if (live->kept || live->recorder_pid || live->mode == OFFHEAP_EXACT) return false;
    if (live->stop_monotonic_ns - live->start_monotonic_ns > SECONDS * UINT64_C(1000000000)) return false;
    return stacks_samples(SAMPLES) < SAMPLES;
}

__attribute__((destructor)) void probe_fall_asleep(void) {
    if (!probe_enter()) return;
    budget_settle();
    live->stop_monotonic_ns = system_monotonic_ns();
    uint32_t recording = OFFHEAP_RECORDING;
    if (__atomic_compare_exchange_n(&live->state, &recording, OFFHEAP_EXITED, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED) &&
        is_not_worth_keeping())
        live_file_remove();
    probe_leave();
    /* The hooks stay, and the mapping: threads may be inside. */
    atomic_store(&probe_state, PROBE_IDLE);
    sampler_stop();
}
