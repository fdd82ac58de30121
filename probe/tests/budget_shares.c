/* How size classes share the budget: the samples of large blocks that churn and of small blocks beside them, and the
 * cost of all samples.  Only the load moves the clocks. */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "platform/system.h"
#include "sampling/budget.h"
#include "sampling/sampler.h"
#include "store/live_file.h"

enum { LEAST = 32 << 10, SAMPLE_NS = 830, PASS_NS = 40, READ_NS = 24, ENTER_NS = 20, FREE_NS = 600 };

static struct offheap_header header;
struct offheap_header *live = &header;
static uint64_t now = 1000000000, cpu;

static void spend(uint64_t ns) {
    now += ns;
    cpu += ns;
}

static uint64_t truly_spent; /* ns of samples and their frees; header.spent_ns is what the probe measures */

static void sampling_takes(uint64_t ns) {
    spend(ns);
    truly_spent += ns;
}

uint64_t system_monotonic_ns(void) {
    sampling_takes(READ_NS / 2);
    uint64_t then = now;
    sampling_takes(READ_NS / 2);
    return then;
}
uint64_t system_coarse_ns(void) { return now; }
uint64_t system_cpu_ns(void) { return cpu; }

static struct {
    double samples, blocks, estimated, variance;
} seen[SAMPLER_CLASSES];

static uint64_t passed_over;

/* Does what record_forget does for a block that is no longer in the cache. */
static void free_sampled(void) {
    uint64_t began = budget_clock_of_free();
    sampling_takes(FREE_NS);
    budget_spend_on_free(began, true);
}

/* Does what the hooks and record_block do. */
static void allocate(size_t size) {
    seen[sampler_class(size)].blocks++;
    if (sampler_passes(size)) return;
    if (sampler_passes_on(size)) {
        sampling_takes(PASS_NS * (sampler_passed_over() - passed_over));
        passed_over = sampler_passed_over();
        return;
    }
    uint64_t began = budget_clock();
    if (sampler_takes(size)) {
        double weight = sampler_weight(size);
        seen[sampler_class(size)].samples++;
        seen[sampler_class(size)].estimated += weight;
        seen[sampler_class(size)].variance += weight * (weight - 1);
        sampling_takes(SAMPLE_NS);
        budget_spend(began, size);
        sampling_takes(ENTER_NS);
        free_sampled();
    }
    budget_adjust();
}

static size_t large_size = 65536;

/* One second of load: `large` large blocks, `small` blocks of 1,000 bytes; share_of_cpu excludes the probe. */
static void second(int large, int small, double share_of_cpu) {
    uint64_t end = now + 1000000000, busy = (uint64_t)(1e9 * share_of_cpu) / (uint64_t)(large + small);
    uint64_t idle = (uint64_t)(1e9 * (1 - share_of_cpu)) / (uint64_t)(large + small);
    double due = 0;
    for (int i = 0; i < large + small; i++) {
        due += (double)small / (large + small);
        bool its = due >= 1;
        due -= its;
        allocate(its ? 1000 : large_size);
        spend(busy);
        if (now < end) now += idle;
    }
}

static double interval(size_t size) {
    /* The interval that a block of this size states when the probe samples it now. */
    do self.countdown = 0;
    while (!sampler_takes(size));
    return (double)sampler_mean(LEAST, sampler_code());
}

static void begin(void) {
    static bool before;
    if (before) sampler_stop();
    before = true;
    struct options options = {.interval = 512 << 10, .least = LEAST, .budget = 10000};
    memset(&header, 0, sizeof header);
    memset(seen, 0, sizeof seen);
    header.intervals[1] = LEAST;
    cpu = passed_over = truly_spent = 0;
    budget_describe(&header, &options);
    budget_start();
    sampler_start(LEAST, (uint8_t)header.interval_code, 7);
    sampler_join();
}

static int failures;

static void check(const char *what, double value, double least, double most) {
    bool holds = value >= least && value <= most;
    printf("%-60s %12.4g  (%.4g to %.4g) %s\n", what, value, least, most, holds ? "" : "FAILED");
    failures += !holds;
}

static void check_estimates(const char *load) {
    const unsigned classes[] = {9, sampler_class(large_size)};
    for (int i = 0; i < 2; i++) {
        if (seen[classes[i]].samples < 30) continue; /* too few for a normal distribution */
        double error = seen[classes[i]].estimated - seen[classes[i]].blocks;
        printf("%s: ", load);
        check("z of the estimated number of blocks", error / sqrt(seen[classes[i]].variance + 1), -4, 4);
    }
}

int main(void) {
    begin();
    second(15000, 10, 0.3);
    double spent = (double)truly_spent, used = (double)cpu;
    for (int i = 0; i < 60; i++) second(15000, 10, 0.3);
    check("1 GB/s of large blocks: part of the CPU that is spent", ((double)truly_spent - spent) / ((double)cpu - used),
          0.008, 0.0105);
    check("what the probe knows of that", (double)header.spent_ns / (double)truly_spent, 0.97, 1.03);
    check("interval of the large, KiB", interval(65536) / 1024, 300, 900);
    check("of the small, not coarsened", interval(1000), LEAST, LEAST);
    check("is at most what the header states", interval(65536) / (double)header.intervals[header.interval_code], 0, 1);
    check_estimates("1 GB/s");

    spent = (double)truly_spent, used = (double)cpu;
    for (int i = 0; i < 30; i++) second(15000, i % 2 ? 100000 : 10, i % 2 ? 0.9 : 0.3);
    check("now and then small ones as well: spent", ((double)truly_spent - spent) / ((double)cpu - used), 0.006, 0.012);
    check_estimates("waves");

    for (int i = 0; i < 20; i++) second(20, 10, 0.01);
    check("nearly idle: interval of the large", interval(65536), LEAST, LEAST);
    check("of the small", interval(1000), LEAST, LEAST);

    begin();
    for (int i = 0; i < 30; i++) second(15, 20000, 0.3);
    check("20 MB/s of small blocks: their interval", interval(1000), LEAST, LEAST);
    check("spent", (double)truly_spent / (double)cpu, 0.0001, 0.0105);
    check_estimates("20 MB/s");

    begin();
    for (int i = 0; i < 30; i++) second(1000000, 10, 0.9);
    spent = (double)truly_spent;
    uint64_t began = now;
    for (int i = 0; i < 30; i++) second(1000000, 10, 0.9);
    /* Share of one CPU, without the recorder's part. */
    check("64 GB/s of large blocks: spent, of one CPU", ((double)truly_spent - spent) / (double)(now - began), 0.004,
          0.00525);
    check("of the small, not coarsened", interval(1000), LEAST, LEAST);
    check_estimates("64 GB/s");

    /* sampler.h does not call these large: they share the countdown of the small blocks. */
    large_size = 16384;
    begin();
    second(60000, 10, 0.3);
    spent = (double)truly_spent, used = (double)cpu;
    for (int i = 0; i < 60; i++) second(60000, 10, 0.3);
    check("1 GB/s of 16 KiB: spent", ((double)truly_spent - spent) / ((double)cpu - used), 0.008, 0.0105);
    check("interval of the 16 KiB, KiB", interval(16384) / 1024, 300, 900);
    check("of the small: finer by", interval(16384) / interval(1000), 3, 20);
    check_estimates("1 GB/s of 16 KiB");
    return failures != 0;
}
