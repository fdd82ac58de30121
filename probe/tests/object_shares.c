/* How native sampling and Java objects share the budget: the CPU of both, under loads of which either alone would take
 * more than all of it.  Only the load moves the clocks; HotSpot's countdown is the test's. */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "java_heap/object_interval.h"
#include "platform/system.h"
#include "sampling/budget.h"
#include "sampling/sampler.h"
#include "store/live_file.h"

enum { LEAST = 32 << 10, BLOCK = 65536, BLOCKS = 15000, OBJECTS_BYTES = 1 << 30 };
enum { SAMPLE_NS = 830, FREE_NS = 600, ENTER_NS = 20, READ_NS = 24, OBJECT_NS = 14000, EVENT_NS = 1000 };

static struct offheap_header header;
struct offheap_header *live = &header;
static uint64_t now, cpu;
static double native_ns, object_ns; /* what samples truly took */

static void spend(uint64_t ns) {
    now += ns;
    cpu += ns;
}

static void native_takes(uint64_t ns) {
    spend(ns);
    native_ns += (double)ns;
}

uint64_t system_monotonic_ns(void) {
    native_takes(READ_NS / 2);
    uint64_t then = now;
    native_takes(READ_NS / 2);
    return then;
}
uint64_t system_coarse_ns(void) { return now; }
uint64_t system_cpu_ns(void) { return cpu; }
uint64_t system_thread_cpu_ns(void) { return cpu; }

static double mean; /* as the probe has told HotSpot */

static jint set_interval(jvmtiEnv *jvmti, jint bytes) {
    (void)jvmti;
    mean = bytes;
    return JNI_OK;
}

static table_entry entries[156] = {[155] = (table_entry)set_interval};
static const table_entry *const jvmti_table = entries;
static jvmtiEnv *jvmti = (jvmtiEnv *)&jvmti_table;

static uint64_t random_state = 11;
static double way; /* bytes until HotSpot's next sample */

static double draw(void) {
    random_state ^= random_state >> 12, random_state ^= random_state << 25, random_state ^= random_state >> 27;
    double uniform = (double)((random_state * UINT64_C(0x2545F4914F6CDD1D)) >> 11) * 0x1p-53;
    return -log(1 - uniform) * mean;
}

/* Does what on_sampled_object does, for so many bytes of small objects. */
static void allocate_objects(double bytes) {
    for (way -= bytes; way <= 0; way += draw()) {
        double before = (double)cpu;
        object_interval_code();
        uint64_t began = system_thread_cpu_ns();
        spend(OBJECT_NS);
        object_interval_spend(began);
        spend(EVENT_NS);
        object_ns += (double)cpu - before;
    }
}

/* Does what the hooks do for a block that is freed at once. */
static void allocate_block(void) {
    if (sampler_passes(BLOCK) || sampler_passes_on(BLOCK)) return;
    uint64_t began = budget_clock();
    if (sampler_takes(BLOCK)) {
        native_takes(SAMPLE_NS);
        budget_spend(began, BLOCK);
        native_takes(ENTER_NS);
        began = budget_clock_of_free();
        native_takes(FREE_NS);
        budget_spend_on_free(began, true);
    }
    budget_adjust();
}

/* A second of load on so many CPUs, without the probe's own. */
static void second(double cpus, bool objects) {
    uint64_t end = now + 1000000000, step = 1000000000 / BLOCKS;
    for (int i = 0; i < BLOCKS && now < end; i++) {
        allocate_block();
        if (objects) allocate_objects((double)OBJECTS_BYTES / BLOCKS);
        cpu += (uint64_t)((double)step * cpus);
        uint64_t due = end - (uint64_t)(BLOCKS - 1 - i) * step;
        if (now < due) now = due;
    }
    if (objects) object_interval_move(jvmti, true);
}

static void begin(bool objects) {
    static bool before;
    if (before) sampler_stop();
    before = true;
    struct options options = {.interval = 512 << 10, .least = LEAST, .budget = 10000, .java = objects};
    memset(&header, 0, sizeof header);
    header.intervals[1] = LEAST;
    now = 1000000000, cpu = 0;
    budget_describe(&header, &options);
    budget_start();
    if (objects) {
        header.java_heap = OFFHEAP_JAVA_HEAP_FOLLOWED;
        object_interval_start(&options);
        object_interval_apply(jvmti);
        way = draw();
    }
    sampler_start(LEAST, (uint8_t)header.interval_code, 7);
    sampler_join();
}

static int failures;

static void check(const char *what, double value, double least, double most) {
    bool holds = value >= least && value <= most;
    printf("%-50s %9.4f  (%.4f to %.4f) %s\n", what, value, least, most, holds ? "" : "FAILED");
    failures += !holds;
}

static struct {
    double native, objects, cpus; /* in CPUs */
} spent;

static void measure(double cpus, bool objects) {
    begin(objects);
    for (int i = 0; i < 20; i++) second(cpus, objects);
    double used = (double)cpu, passed = (double)now, told = (double)header.java_spent_ns;
    native_ns = object_ns = 0;
    for (int i = 0; i < 40; i++) second(cpus, objects);
    passed = (double)now - passed;
    spent.native = native_ns / passed, spent.objects = object_ns / passed, spent.cpus = ((double)cpu - used) / passed;
    printf("%s objects, %.2f CPUs:\n", objects ? "with" : "without", spent.cpus);
    if (objects) check("what the probe knows of the objects", (header.java_spent_ns - told) / object_ns, 0.97, 1.03);
}

int main(void) {
    const double loads[] = {0.01, 0.3, 1, 3};
    for (int i = 0; i < 4; i++) {
        /* docs/budget.md: the recorder has half of 1 % of one CPU, of what remains native sampling has the process's
         * own part at most, half of that beside Java objects, and these have the rest. */
        measure(loads[i], false);
        double alone = spent.native;
        measure(loads[i], true);
        double rest = (spent.cpus > 1 ? spent.cpus : 1) - 0.5, own = spent.cpus > 0.1 ? spent.cpus : 0.1;
        double native = 0.01 * (own < rest ? own : rest) / 2, objects = 0.01 * rest - native;
        check("native sampling: of its part", spent.native / native, 0.75, 1.03);
        check("of what it has without objects", spent.native / alone, 0.4, 0.65);
        /* The interval moves by octaves, and falls only if twice the samples leave a tenth of the grant. */
        check("Java objects: of their part", spent.objects / objects, 0.4, 1);
        check("both: of the budget without the recorder", (spent.native + spent.objects) / (0.01 * rest), 0.5, 1);
    }
    return failures != 0;
}
