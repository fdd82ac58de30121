#define _GNU_SOURCE
#include "java_heap/java_heap.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "guard/guard.h"
#include "guard/thread_state.h"
#include "java_heap/class_memo.h"
#include "java_heap/object_interval.h"
#include "java_heap/object_stack.h"
#include "java_heap/objects.h"
#include "jvm/bell.h"
#include "jvm/java_frames.h"
#include "platform/system.h"
#include "store/live_file.h"
#include "store/stacks.h"
#include "unwind/unwind.h"

enum {
    /* A sweep takes some 30 ns an object, so a collection rings the bell only if the last sweep is older than this. */
    RING_NS = 250000000,
    /* A collector may free objects without an event, so a sweep is due after this time in any case. */
    SWEEP_NS = 2000000000,
};

static struct {
    struct options options;
    jvmtiEnv *jvmti;        /* NULL: no objects are followed */
    _Atomic uint64_t began; /* coarse clock: begin of the latest collection */
    _Atomic uint64_t ended; /* collections that have ended */
    _Atomic uint64_t swept; /* monotonic clock: begin of the latest sweep */
    uint64_t seen;          /* `ended` at that sweep */
    uint64_t seed;
} heap;

void java_heap_request(const struct options *options) {
    heap.options = *options;
    heap.seed = (options->seed ? options->seed : system_monotonic_ns()) | 1;
    if (options->java) live->java_heap = OFFHEAP_JAVA_HEAP_REQUESTED;
}

/* Runs on the allocating thread.  The calls into the VM may wait for a safepoint; the thread holds no lock of the probe
 * during them. */
static void on_sampled_object(jvmtiEnv *jvmti, JNIEnv *env, jthread thread, jobject object, jclass class, jlong size) {
    (void)thread;
    uint8_t code = object_interval_code();
    if (!guard_enter()) return;
    self.inside = THREAD_OWN_DOING;          /* the VM allocates the weak reference and the signature */
    uint64_t began = system_thread_cpu_ns(); /* not the monotonic clock: a sample may wait for a safepoint */
    struct unwind_registers here;
    unwind_here(&here);
    uint32_t stack = object_stack(jvmti, env, class, &here);
    /* Only its stack tells an object from native memory: without one it would count as that. */
    if (stack) stack_count_sampled(stack, (size_t)size, 1 / object_probability((size_t)size, code));
    if (!stack || !objects_follow(env, object, (size_t)size, code, stack)) live_lose(OFFHEAP_LOST_OBJECTS);
    else if (objects_crowded()) bell_ring();
    object_interval_spend(began);
    guard_leave();
}

/* on_collection_start and on_collection_finish run on a thread of the VM while the program stands still, and may not
 * call the VM. */

static void on_collection_start(jvmtiEnv *jvmti) {
    (void)jvmti;
    atomic_store_explicit(&heap.began, system_coarse_ns(), memory_order_relaxed);
}

static void on_collection_finish(jvmtiEnv *jvmti) {
    (void)jvmti;
    atomic_fetch_add_explicit(&heap.ended, 1, memory_order_release);
    if (system_coarse_ns() > atomic_load_explicit(&heap.swept, memory_order_relaxed) + RING_NS) bell_ring();
}

static const jvmtiEventCallbacks callbacks = {
    .collection_start = on_collection_start,
    .collection_finish = on_collection_finish,
    .sampled_object = on_sampled_object,
};

static const enum jvmti_event events[] = {JVMTI_COLLECTION_START, JVMTI_COLLECTION_FINISH, JVMTI_SAMPLED_OBJECT};
enum { EVENTS = sizeof events / sizeof *events };

/* The most bytes that followed objects may take.  Generational ZGC keeps the object of a weak reference until it
 * collects the old generation (JDK-8375615), even garbage that it would otherwise free at once.  So followed objects
 * may take only a part of its heap.  JDK 21 to 23 have both kinds of ZGC, and the flag ZGenerational tells which one
 * runs. */
static uint64_t most_bytes(void) {
    enum { PART = 32 };
    const bool *z = java_flag("UseZGC"), *generational = java_flag("ZGenerational");
    const uint64_t *heap_bytes = java_flag("MaxHeapSize");
    bool young = java_flag("ZYoungCompactionLimit") != NULL && (!generational || *generational);
    return z && *z && young && heap_bytes ? *heap_bytes / PART : UINT64_MAX;
}

static uint32_t follow(JavaVM *vm) {
    jvmtiEnv *jvmti = NULL;
    if (!java_known() || vm_get_env(vm, &jvmti, JVMTI_VERSION_11) != JNI_OK || !jvmti)
        return OFFHEAP_JAVA_HEAP_UNAVAILABLE;
    const jvmtiCapabilities wanted = {.bits = {JVMTI_CAN_TELL_COLLECTIONS, JVMTI_CAN_SAMPLE_OBJECTS}};
    uint32_t state = OFFHEAP_JAVA_HEAP_TAKEN;
    if (jvmti_add_capabilities(jvmti, &wanted) == JNI_OK) {
        state = OFFHEAP_JAVA_HEAP_UNAVAILABLE;
        object_interval_start(&heap.options);
        class_memo_start();
        if (jvmti_set_callbacks(jvmti, &callbacks) == JNI_OK &&
            objects_start(heap.options.java_objects, most_bytes())) {
            heap.jvmti = jvmti;
            heap.seen = 0;
            atomic_store(&heap.ended, 0);
            atomic_store(&heap.swept, system_monotonic_ns());
            object_interval_apply(jvmti);
            bool on = true;
            for (int i = 0; i < EVENTS; i++) on = on && jvmti_set_event(jvmti, JVMTI_ENABLE, events[i]) == JNI_OK;
            if (on) return OFFHEAP_JAVA_HEAP_FOLLOWED;
            heap.jvmti = NULL;
        }
    }
    jvmti_dispose(jvmti);
    return state;
}

void java_heap_begin(JavaVM *vm) {
    if (!heap.options.java || heap.jvmti || !guard_enter()) return;
    self.inside = THREAD_OWN_DOING;
    __atomic_store_n(&live->java_heap, follow(vm), __ATOMIC_RELAXED);
    guard_leave();
}

static uint32_t tick_of(uint64_t monotonic_ns) {
    uint64_t since = monotonic_ns > live->start_monotonic_ns ? monotonic_ns - live->start_monotonic_ns : 0;
    return (uint32_t)(since / live->tick_ns);
}

static void sweep(JNIEnv *env) {
    uint64_t ended = atomic_load_explicit(&heap.ended, memory_order_acquire);
    uint64_t began = atomic_load_explicit(&heap.began, memory_order_relaxed), now = system_monotonic_ns();
    atomic_store(&heap.swept, now);
    objects_sweep(env);
    if (ended != heap.seen) __atomic_store_n(&live->java_collected, tick_of(began), __ATOMIC_RELAXED);
    heap.seen = ended;
    __atomic_store_n(&live->java_collections, ended, __ATOMIC_RELAXED);
    __atomic_store_n(&live->java_swept_ns, now, __ATOMIC_RELEASE);
}

void java_heap_tick(JNIEnv *env) {
    if (!heap.jvmti || !guard_enter()) return;
    self.inside = THREAD_OWN_DOING;
    bool collected = atomic_load_explicit(&heap.ended, memory_order_acquire) != heap.seen;
    if (collected || system_monotonic_ns() > atomic_load(&heap.swept) + SWEEP_NS) sweep(env);
    if (objects_crowded()) {
        object_interval_rise(heap.jvmti, objects_thin(env, &heap.seed));
        __atomic_fetch_add(&live->java_thinned, 1, __ATOMIC_RELAXED);
    }
    object_interval_move(heap.jvmti, objects_sparse());
    guard_leave();
}

void java_heap_end(JNIEnv *env) {
    if (!heap.jvmti) return;
    for (int i = 0; i < EVENTS; i++) jvmti_set_event(heap.jvmti, JVMTI_DISABLE, events[i]);
    object_interval_restore(heap.jvmti);
    if (guard_enter_to_describe()) {
        self.inside = THREAD_OWN_DOING;
        sweep(env);
        guard_leave();
    }
    /* If a thread is stopped in an event, it still uses the slots: then the slots and their references stay. */
    if (guard_wait_until_outside()) {
        objects_stop(env);
        class_memo_stop(env);
    }
    jvmti_dispose(heap.jvmti);
    heap.jvmti = NULL;
}
