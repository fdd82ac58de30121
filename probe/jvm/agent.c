/*
 * The agent meets the JVM in one of three ways:
 *
 *   preload     dlsym("JNI_CreateJavaVM") hands out a wrapper: the set-up runs on the JVM's own first thread, as soon
 *               as the VM is complete.  The agent thread polls for a JVM that is created without dlsym (a program
 *               linked with libjvm).
 *   agentpath   Agent_OnLoad makes the JVMTI environment, VMInit does the set-up.
 *   attach      Agent_OnAttach does the set-up, then starts recording.
 *
 * The set-up turns JVMTI events on, makes jmethodIDs and allows AsyncGetCallTrace.  The agent thread attaches itself as
 * a daemon, since it needs a JNIEnv to name methods.  It must make no JVMTI call after VMDeath has returned, so it
 * holds `using_vm` around each batch of calls, and VMDeath waits for the lock.
 */
#define _GNU_SOURCE
#include "jvm/agent.h"

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

#include "guard/guard.h"
#include "jvm/bell.h"
#include "jvm/events.h"
#include "jvm/java_frames.h"
#include "jvm/jvm_start.h"
#include "jvm/method_names.h"
#include "jvm/properties.h"
#include "platform/system.h"
#include "store/live_file.h"

enum vm_phase {
    VM_NONE,     /* not met yet */
    VM_STARTING, /* Agent_OnLoad has run: VMInit follows */
    VM_LIVE,
    VM_DEAD,
};

enum {
    STACK_BYTES = 512 << 10, /* HotSpot's guard and shadow zones alone take some 150 KiB of it */
    TICK_MS = 1000,
    POLL_MS = 5, /* until the agent has met a JVM */
    STOP_LIMIT_MS = 10000,
};

static struct {
    pthread_mutex_t changing; /* held for set-up, start and stop; never during a wait for the thread */
    pthread_mutex_t using_vm;
    _Atomic int phase; /* enum vm_phase */
    JavaVM *vm;
    bool names;         /* JVMTI events are on */
    bool walks;         /* hooks may call AsyncGetCallTrace as well */
    uint32_t recording; /* counts recordings */
    _Atomic bool wanted;
    _Atomic uint32_t running; /* a futex */
} agent = {.changing = PTHREAD_MUTEX_INITIALIZER, .using_vm = PTHREAD_MUTEX_INITIALIZER};

static void nothing(void) {}
static void nothing_of_vm(JavaVM *vm) { (void)vm; }
static void nothing_of_env(JNIEnv *env) { (void)env; }
static const struct agent_duties none = {
    .modules_changed = nothing,
    .tick = nothing,
    .vm_met = nothing_of_vm,
    .vm_tick = nothing_of_env,
    .vm_left = nothing_of_env,
    .vm_died = nothing,
};
static _Atomic(const struct agent_duties *) duties = &none;

void agent_serve(const struct agent_duties *wanted) { atomic_store(&duties, wanted); }

/* -- set-up ----------------------------------------------------------------------------- */

static void vm_dying(JNIEnv *env);
static const struct vm_listener listener = {.init = agent_vm_live, .death = vm_dying};

/* Call with `changing` held.  Harmless when the set-up is done already. */
static void set_up(JavaVM *vm, JNIEnv *env) {
    if (atomic_load(&agent.phase) == VM_DEAD) return;
    agent.vm = vm;
    if (!agent.names) agent.names = events_open(vm, &listener) && events_on(env);
    /* Without the events AsyncGetCallTrace always refuses. */
    if (agent.names && !agent.walks) {
        jthread thread = NULL;
        jvmti_current_thread(events_jvmti(), &thread);
        agent.walks = java_begin(vm, env, thread);
        if (thread) jni_delete_local_ref(env, thread);
    }
    atomic_store(&agent.phase, VM_LIVE);
}

bool agent_await(JavaVM *vm) {
    atomic_store(&agent.phase, VM_STARTING);
    if (!java_discover() || !events_open(vm, &listener)) return false;
    events_await_vm();
    return true;
}

bool agent_set_up(JavaVM *vm) {
    JNIEnv *env;
    if (vm_get_env(vm, &env, JNI_VERSION_1_6) != JNI_OK) return false;
    java_discover();
    pthread_mutex_lock(&agent.changing);
    set_up(vm, env);
    pthread_mutex_unlock(&agent.changing);
    return true;
}

void agent_abandon(void) {
    pthread_mutex_lock(&agent.changing);
    if (!atomic_load(&agent.wanted)) {
        java_end();
        if (agent.names) events_off();
        agent.names = agent.walks = false;
    }
    pthread_mutex_unlock(&agent.changing);
}

void agent_vm_live(JavaVM *vm, JNIEnv *env) {
    /* java_discover takes the dynamic linker's lock, so it must run outside `changing`. */
    java_discover();
    pthread_mutex_lock(&agent.changing);
    if (guard_is_recording()) set_up(vm, env);
    else agent.vm = vm;
    atomic_store(&agent.phase, VM_LIVE);
    pthread_mutex_unlock(&agent.changing);
    if (guard_is_recording()) agent_start();
}

/* Runs at the last moment at which JVMTI calls are allowed, on the thread that ends the VM. */
static void vm_dying(JNIEnv *env) {
    java_end();
    /* The agent thread holds the lock for a batch of method names; HotSpot lets it finish the batch. */
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 1;
    bool alone = pthread_mutex_timedlock(&agent.using_vm, &limit) == 0;
    if (alone) atomic_load(&duties)->vm_tick(env);
    if (alone) methods_name(events_jvmti(), env);
    atomic_store(&agent.phase, VM_DEAD);
    if (alone) pthread_mutex_unlock(&agent.using_vm);
    atomic_load(&duties)->vm_died();
}

void agent_vm_gone(void) {
    java_end();
    atomic_store(&agent.phase, VM_DEAD);
}

/* -- the thread ------------------------------------------------------------------------- */

static JNIEnv *attach(void) {
    JNIEnv *env = NULL;
    JavaVMAttachArgs args = {.version = JNI_VERSION_1_6, .name = "offheap"};
    return vm_attach_as_daemon(agent.vm, &env, &args) == JNI_OK ? env : NULL;
}

/* The first work in each recording: describes the JVM, and what the recording covers of it. */
static void introduce(JNIEnv *env) {
    pthread_mutex_lock(&agent.changing);
    if (atomic_load(&agent.wanted)) set_up(agent.vm, env);
    uint64_t missing = (agent.walks ? 0 : OFFHEAP_NO_JAVA_FRAMES) | (agent.names ? 0 : OFFHEAP_NO_METHOD_NAMES);
    pthread_mutex_unlock(&agent.changing);
    if (guard_enter_to_describe()) {
        live_cover(missing, OFFHEAP_NO_JVM);
        guard_leave();
    }
    properties_of_java(env);
    pthread_mutex_lock(&agent.using_vm);
    /* Calls vm_met also without events, as before JDK 11: the recording then says what the VM lacks. */
    if (atomic_load(&agent.phase) == VM_LIVE) atomic_load(&duties)->vm_met(agent.vm);
    pthread_mutex_unlock(&agent.using_vm);
}

/* The regular work that needs a living VM. */
static void serve_vm(JNIEnv *env) {
    pthread_mutex_lock(&agent.using_vm);
    if (atomic_load(&agent.phase) == VM_LIVE && agent.names) {
        methods_name(events_jvmti(), env);
        atomic_load(&duties)->vm_tick(env);
    }
    pthread_mutex_unlock(&agent.using_vm);
}

static int count_changes(struct dl_phdr_info *info, size_t size, void *changes) {
    (void)size;
    *(unsigned long long *)changes = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

/* Modules are also loaded in ways that no dlopen hook sees. */
static void follow_modules(unsigned long long *known) {
    unsigned long long changes = 0;
    dl_iterate_phdr(count_changes, &changes);
    if (changes == *known) return;
    *known = changes;
    atomic_load(&duties)->modules_changed();
}

/* Leaves the VM at the end of a recording: on the agent thread and not in agent_stop, because this thread is certainly
 * attached. */
static void leave_vm(JNIEnv *env) {
    java_end();
    serve_vm(env);
    pthread_mutex_lock(&agent.changing);
    pthread_mutex_lock(&agent.using_vm);
    if (atomic_load(&agent.phase) == VM_LIVE && agent.names) {
        atomic_load(&duties)->vm_left(env);
        events_off();
    }
    agent.names = agent.walks = false;
    pthread_mutex_unlock(&agent.using_vm);
    pthread_mutex_unlock(&agent.changing);
    vm_detach(agent.vm);
}

static void *run(void *unused) {
    prctl(PR_SET_NAME, "offheap");
    JNIEnv *env = NULL;
    uint32_t introduced = 0;
    unsigned long long modules = 0;
    int waited_ms = 0;
    for (;;) {
        uint32_t rung = bell_rung();
        bool dead = atomic_load(&agent.phase) == VM_DEAD;
        /* A thread that is attached to a dead VM can neither detach nor end: it sleeps until the next recording wants
         * it. */
        if (!atomic_load(&agent.wanted) && !(env && dead)) break;

        if (atomic_load(&agent.phase) == VM_NONE) {
            JavaVM *vm = java_discover() ? jvm_start_poll(waited_ms) : NULL;
            if (vm) {
                agent.vm = vm;
                atomic_store(&agent.phase, VM_LIVE);
            }
        }
        bool alive = atomic_load(&agent.phase) == VM_LIVE;
        if (alive && !env) env = attach();
        if (alive && env && introduced != agent.recording) {
            introduced = agent.recording;
            introduce(env);
        }
        if (env) serve_vm(env);
        follow_modules(&modules);
        atomic_load(&duties)->tick();

        int pause_ms = atomic_load(&agent.phase) == VM_NONE ? POLL_MS : TICK_MS;
        waited_ms += pause_ms;
        bell_wait(rung, pause_ms);
    }
    /* If agent_stop came before this thread ran, the set-up of the attach must still be undone: otherwise the next
     * recording finds the set-up done and has no Java frames.  Also, this recording has no properties yet. */
    if (!env && atomic_load(&agent.phase) == VM_LIVE) env = attach();
    if (env && atomic_load(&agent.phase) == VM_LIVE && introduced != agent.recording) introduce(env);
    if (env) leave_vm(env);
    atomic_store(&agent.running, 0);
    system_futex_wake(&agent.running);
    return unused;
}

/* Signals are for the program's threads, except those that HotSpot raises for itself in Java code. */
static void block_signals(sigset_t *old) {
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof synchronous / sizeof *synchronous; i++) sigdelset(&blocked, synchronous[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, old);
}

static int spawn(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t old;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* glibc gives this stack to a later thread.  HotSpot's own guard pages, above glibc's, stay inaccessible when a
     * thread ends (JavaThread::remove_stack_guard_pages), and the next thread inherits them.  Java threads have no
     * guard pages of glibc's, so theirs begin lower: JDK 11 hits the one page of this thread that stays inaccessible
     * above.  Without a JVM, which has its own guard pages, this thread goes only a few frames deep. */
    pthread_attr_setguardsize(&attributes, 0);
    block_signals(&old);
    int error = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

int agent_start(void) {
    int error = 0;
    pthread_mutex_lock(&agent.changing);
    if (!atomic_load(&agent.wanted)) {
        agent.recording++;
        atomic_store(&agent.wanted, true);
    }
    if (!atomic_load(&agent.running)) {
        atomic_store(&agent.running, 1);
        error = spawn();
        if (error) atomic_store(&agent.running, 0);
    }
    pthread_mutex_unlock(&agent.changing);
    bell_ring();
    return error;
}

void agent_stop(void) {
    pthread_mutex_lock(&agent.changing);
    bool wanted = atomic_exchange(&agent.wanted, false);
    pthread_mutex_unlock(&agent.changing);
    java_end();
    bell_ring();
    uint64_t limit = system_monotonic_ns() + STOP_LIMIT_MS * UINT64_C(1000000);
    /* A dead VM may have stopped the thread forever in the middle of a call. */
    while (wanted && atomic_load(&agent.running) && atomic_load(&agent.phase) != VM_DEAD &&
           system_monotonic_ns() < limit)
        system_futex_wait(&agent.running, 1, 100);
}
