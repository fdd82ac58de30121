#define _GNU_SOURCE
#include "java_heap/object_interval.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "guard/thread_state.h"
#include "platform/system.h"
#include "recording.h"
#include "sampling/arithmetic.h"
#include "sampling/budget.h"
#include "store/live_file.h"

enum {
    LEAST_INTERVAL = 32 << 10,    /* the least that a budget may choose */
    DEFAULT_INTERVAL = 512 << 10, /* HotSpot's own; it draws countdowns with this mean until the event is enabled */
    MOST_INTERVAL = 1 << 30,      /* JVMTI takes a jint */
    PERIOD_NS = 1000000000,
    /* The first walk of a stack takes ten times as long as a later one.  If its whole time counted, a short recording
     * would have hardly any samples. */
    LONGEST_NS = 32000,
    /* HotSpot's own part of an event, which no clock here sees: its handles, its transitions, the slow path. */
    EVENT_NS = 1000,
    MOST_RISE = 3, /* codes in a second: a burst may be over soon */
};

/* The interval falls if sampling stays below the grant even with twice the samples, which half the interval causes. */
static const double FALLS_BELOW = 2.2;

static struct {
    _Atomic uint8_t code;
    _Atomic uint8_t recording; /* modulo 256 */
    uint8_t floor;
    bool fixed;
    double inverse[256];    /* 1 / mean, by code */
    _Atomic uint64_t spent; /* ns since the last move */
    uint64_t moved;         /* monotonic clock */
    uint64_t cpu;
} interval;

void object_interval_start(const struct options *options) {
    uint64_t mean = options->java_interval ? options->java_interval : LEAST_INTERVAL;
    uint64_t first = options->java_interval ? mean : DEFAULT_INTERVAL;
    uint8_t start = OFFHEAP_JAVA_CODE;
    for (unsigned code = OFFHEAP_JAVA_CODE; code < 256 && mean <= MOST_INTERVAL; code++, mean *= 2) {
        live->intervals[code] = mean;
        interval.inverse[code] = 1 / (double)mean;
        if (mean <= first) start = (uint8_t)code;
    }
    interval.fixed = options->java_interval != 0;
    interval.floor = OFFHEAP_JAVA_CODE;
    interval.moved = system_monotonic_ns();
    interval.cpu = system_cpu_ns();
    atomic_store(&interval.spent, 0);
    atomic_store(&interval.code, start);
    atomic_fetch_add(&interval.recording, 1);
    __atomic_store_n(&live->java_code, start, __ATOMIC_RELAXED);
}

void object_interval_apply(jvmtiEnv *jvmti) {
    jvmti_sampling_interval(jvmti, (jint)live->intervals[atomic_load(&interval.code)]);
}

void object_interval_restore(jvmtiEnv *jvmti) { jvmti_sampling_interval(jvmti, DEFAULT_INTERVAL); }

uint8_t object_interval_code(void) {
    uint8_t now = atomic_load_explicit(&interval.code, memory_order_relaxed);
    uint8_t recording = atomic_load_explicit(&interval.recording, memory_order_relaxed);
    uint8_t drawn = self.object_recording == recording && self.object_code ? self.object_code : now;
    self.object_recording = recording;
    self.object_code = now;
    return drawn;
}

double object_probability(size_t size, uint8_t code) {
    return one_minus_exp((double)(size ? size : 1) * interval.inverse[code]);
}

void object_interval_spend(uint64_t began) {
    uint64_t spent = system_thread_cpu_ns() - began;
    if (spent > LONGEST_NS) spent = LONGEST_NS;
    spent += EVENT_NS;
    __atomic_fetch_add(&live->java_spent_ns, spent, __ATOMIC_RELAXED);
    atomic_fetch_add_explicit(&interval.spent, spent, memory_order_relaxed);
}

static void set(jvmtiEnv *jvmti, int code) {
    if (code < interval.floor) code = interval.floor;
    while (code > 255 || (code > (int)OFFHEAP_JAVA_CODE && live->intervals[code] == 0)) code--;
    if (code == atomic_load(&interval.code)) return;
    atomic_store(&interval.code, (uint8_t)code);
    __atomic_store_n(&live->java_code, (uint32_t)code, __ATOMIC_RELAXED);
    object_interval_apply(jvmti);
}

void object_interval_rise(jvmtiEnv *jvmti, uint8_t code) {
    if (code > interval.floor) interval.floor = code;
    int now = atomic_load(&interval.code);
    set(jvmti, now > code ? now : code);
}

void object_interval_move(jvmtiEnv *jvmti, bool sparse) {
    uint64_t now = system_monotonic_ns(), passed = now - interval.moved;
    if (passed < PERIOD_NS) return;
    uint64_t cpu = system_cpu_ns(), used = cpu - interval.cpu;
    double spent = (double)atomic_exchange(&interval.spent, 0);
    interval.moved = now;
    interval.cpu = cpu;
    if (sparse && interval.floor > OFFHEAP_JAVA_CODE) interval.floor--;
    if (interval.fixed) {
        set(jvmti, interval.floor);
        return;
    }
    double granted = budget_of_objects(used, passed);
    int code = atomic_load(&interval.code), rise = 0;
    for (; spent > granted && rise < MOST_RISE; rise++) spent /= 2;
    if (rise == 0 && spent * FALLS_BELOW < granted) rise = -1;
    set(jvmti, code + rise);
}
