#define _GNU_SOURCE
#include "guard/guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard/thread_state.h"
#include "platform/compiler.h"
#include "platform/system.h"

static _Atomic int current; /* enum guard_state */

/* The kernel wipes this to 0 in a forked child (MADV_WIPEONFORK), also after a raw clone that runs no atfork handler,
 * but not in a vfork child, which allocates for its parent. */
static _Atomic int *owner;

/*
 * The threads inside the probe, counted by lane.  A lane belongs to the first thread that takes it, and names the
 * thread by the address of its thread-local storage: no two living threads share an address, and a thread that gets the
 * storage of a dead thread gets the lane too.  The owner counts with plain loads and stores; one membarrier(2) in
 * guard_wait_until_outside replaces a fence on every entry.  A thread that finds its lane taken counts in of_others,
 * atomically.
 */
enum { LANES = 256 };
static struct lane {
    _Alignas(64) _Atomic(struct thread_state *) thread;
    _Atomic int32_t of_owner, of_others;
} lanes[LANES];

static bool have_membarrier;

static struct lane *my_lane(void) { return &lanes[(uint32_t)((uintptr_t)&self >> 6) * UINT32_C(2654435761) >> 24]; }

static bool owns(struct lane *lane) {
    struct thread_state *thread = atomic_load_explicit(&lane->thread, memory_order_relaxed);
    if (likely(thread == &self)) return true;
    if (thread || !have_membarrier) return false;
    /* The exchange fails if another thread has taken the lane, or if a signal handler has taken it for this thread. */
    return atomic_compare_exchange_strong(&lane->thread, &thread, &self) || thread == &self;
}

/* A signal handler between the load and the store restores the count, so no increment is lost. */
static void count_owner(struct lane *lane, int32_t change) {
    int32_t count = atomic_load_explicit(&lane->of_owner, memory_order_relaxed);
    atomic_store_explicit(&lane->of_owner, count + change, memory_order_release);
}

static void go_out(void) {
    struct lane *lane = my_lane();
    if (likely(atomic_load_explicit(&lane->thread, memory_order_relaxed) == &self)) count_owner(lane, -1);
    else atomic_fetch_sub_explicit(&lane->of_others, 1, memory_order_release);
}

static bool come_in(bool stopping_as_well) {
    struct lane *lane = my_lane();
    if (likely(owns(lane))) {
        count_owner(lane, 1);
        /* The processor needs no fence: the membarrier orders the count before this read of the state. */
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        /* Sequentially consistent, like the store of the state and the reads of the lanes in
         * guard_wait_until_outside. */
        atomic_fetch_add(&lane->of_others, 1);
    }
    int state = atomic_load(&current);
    if (likely((state == GUARD_RECORDING || (stopping_as_well && state == GUARD_STOPPING)) &&
               atomic_load_explicit(owner, memory_order_relaxed)))
        return true;
    go_out();
    return false;
}

bool guard_enter(void) {
    if (self.inside || guard_state() != GUARD_RECORDING) return false;
    self.inside = THREAD_INSIDE;
    if (come_in(false)) return true;
    self.inside = THREAD_OUTSIDE;
    return false;
}

bool guard_enter_to_describe(void) {
    if (self.inside || guard_state() == GUARD_IDLE) return false;
    self.inside = THREAD_INSIDE;
    if (come_in(true)) return true;
    self.inside = THREAD_OUTSIDE;
    return false;
}

void guard_leave(void) {
    go_out();
    self.inside = THREAD_OUTSIDE;
}

int guard_lane(void) {
    struct lane *lane = my_lane();
    return atomic_load_explicit(&lane->thread, memory_order_relaxed) == &self ? (int)(lane - lanes) : -1;
}

bool guard_enter_nested(void) { return guard_state() == GUARD_RECORDING && come_in(false); }

void guard_leave_nested(void) { go_out(); }

enum guard_state guard_state(void) { return (enum guard_state)atomic_load_explicit(&current, memory_order_relaxed); }

void guard_set_state(enum guard_state next) { atomic_store(&current, next); }

bool guard_is_recording(void) {
    return guard_state() == GUARD_RECORDING && atomic_load_explicit(owner, memory_order_relaxed);
}

static void forget_fork(void) {
    if (owner) atomic_store(owner, 0);
}

static bool own_process(void) {
    if (owner) {
        atomic_store(owner, 1); /* a forked child of an idle parent finds 0 here */
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

/* Asks once: have_membarrier must not change while a thread is inside.  A seccomp filter that forbids the call only
 * costs speed. */
static void ask_for_membarrier(void) {
    static bool asked;
    if (!asked) have_membarrier = membarrier(BARRIER_REGISTER_PRIVATE_EXPEDITED);
    asked = true;
}

bool guard_prepare(void) {
    if (!own_process()) return false;
    ask_for_membarrier();
    return true;
}

/* If the barrier fails, the counts of the owners are not reliable, and the answer is false. */
bool guard_wait_until_outside(void) {
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
