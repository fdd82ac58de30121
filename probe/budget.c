#define _GNU_SOURCE
#include "budget.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "arithmetic.h"
#include "live_file.h"
#include "probe.h"
#include "sampler.h"
#include "system.h"

enum {
    MOST_BYTES = 64 << 20, /* the interval's upper bound, unless it starts above it */
    PERIOD_NS = 100000000,
    /* A thread that was preempted in a sample has not spent that time: nothing counts for more. */
    LONGEST_NS = 64000,
    /* A process is granted at least what is due to this part of a CPU: one that hardly computes would be
     * sampled less than any other, to save what nobody would notice. */
    IDLE_PART = 10,
    /* A stack that was not met before takes ten times as long as one that was.  A recording meets most of its
     * stacks at its start; if they moved the interval, a short recording would hardly see anything.  So what a
     * sample takes above the usual is granted on top, until this much of it has been used up. */
    USUAL_NS = 4000,
    CREDIT_NS = 50000000,
    /* Of the time granted and spent alike: so few samples prove nothing, and the interval hardly moves. */
    PRIOR_NS = 20000,
    OCTAVE = 8,           /* interval codes (sampler_mean) */
    RISE = 3 * OCTAVE,    /* at a look: a burst is over before eight times as much would be too much */
    FALL = OCTAVE,        /* in a period */
};

static struct {
    bool on;
    uint64_t cpu_at_start;
    _Atomic uint64_t looked; /* coarse clock */
    _Atomic bool looking;
    _Atomic uint64_t unusual;  /* ns that samples took above USUAL_NS, since the last look */
    uint64_t cpu, spent, lost; /* as of then; these and the next belong to whoever is looking */
    uint64_t credit;           /* ns left of CREDIT_NS */
} budget;

void budget_describe(struct offheap_header *header, const struct options *options) {
    if (!options->budget) return;
    header->budget_ppm = options->budget;
    uint32_t start = 1;
    for (unsigned code = 2; code < 256; code++) {
        uint64_t mean = sampler_mean(options->least, code);
        if (mean > MOST_BYTES) break;
        header->intervals[code] = mean;
        if (mean <= options->interval) start = code;
    }
    header->interval_code = header->least_code = header->greatest_code = start;
}

void budget_start(void) {
    budget.on = live->budget_ppm != 0;
    budget.cpu = budget.spent = budget.lost = 0;
    budget.credit = CREDIT_NS;
    atomic_store(&budget.unusual, 0);
    budget.cpu_at_start = system_cpu_ns();
    atomic_store(&budget.looked, system_coarse_ns());
    atomic_store(&budget.looking, false);
    live->looked_ns = live->start_monotonic_ns;
}

uint64_t budget_clock(void) { return budget.on ? system_monotonic_ns() : 0; }

void budget_spend(uint64_t began) {
    if (!began) return;
    uint64_t spent = system_monotonic_ns() - began;
    if (spent > LONGEST_NS) spent = LONGEST_NS;
    __atomic_fetch_add(&live->spent_ns, spent, __ATOMIC_RELAXED);
    if (spent > USUAL_NS) atomic_fetch_add_explicit(&budget.unusual, spent - USUAL_NS, memory_order_relaxed);
}

/* What has passed since the last look goes into the live file. */
static uint64_t account(uint64_t now) {
    uint64_t before = atomic_load_explicit(&budget.looked, memory_order_relaxed);
    uint64_t passed = now > before ? now - before : 0;
    double sum = live->inverse_seconds + (double)passed * 1e-9 / (double)live->intervals[live->interval_code];
    __atomic_store(&live->inverse_seconds, &sum, __ATOMIC_RELAXED);
    __atomic_store_n(&live->cpu_ns, system_cpu_ns() - budget.cpu_at_start, __ATOMIC_RELAXED);
    __atomic_store_n(&live->looked_ns, now, __ATOMIC_RELAXED);
    atomic_store_explicit(&budget.looked, now, memory_order_relaxed);
    return passed;
}

/* Codes up or down.  While blocks are small against the interval, the time spent is as its inverse, so the
 * ratio to what was granted is the factor that it lacks; for larger ones a few looks come closer. */
static int step(double spent, double granted, uint64_t passed) {
    double octaves = natural_log((spent + PRIOR_NS) / (granted + PRIOR_NS)) / 0.69314718055994531;
    double codes = octaves * OCTAVE, least = -(double)FALL * (double)passed / PERIOD_NS;
    if (codes < least) codes = least;
    if (codes < -255) codes = -255;
    if (codes > RISE) codes = RISE;
    return (int)(codes < 0 ? codes - 0.5 : codes + 0.5);
}

/* CPU may be left where room is not: was a block lost since the last look because the table is full? */
static bool crowded(void) {
    uint64_t lost = __atomic_load_n(&live->losses[OFFHEAP_LOST_BLOCKS], __ATOMIC_RELAXED);
    bool more = lost != budget.lost;
    budget.lost = lost;
    return more;
}

static void look(uint64_t now) {
    uint64_t passed = account(now);
    uint64_t cpu = live->cpu_ns, spent = __atomic_load_n(&live->spent_ns, __ATOMIC_RELAXED);
    uint64_t used = cpu - budget.cpu;
    if (used < passed / IDLE_PART) used = passed / IDLE_PART;
    double granted = (double)used * 1e-6 * (double)live->budget_ppm;
    uint64_t spending = spent - budget.spent;
    uint64_t credited = atomic_exchange_explicit(&budget.unusual, 0, memory_order_relaxed);
    /* A sample that ends right now may be in one of the two sums and not yet in the other. */
    if (credited > spending) credited = spending;
    if (credited > budget.credit) credited = budget.credit;
    budget.credit -= credited;
    int steps = step((double)(spending - credited), granted, passed);
    if (crowded() && steps < OCTAVE) steps = OCTAVE;
    int code = (int)live->interval_code + steps;
    if (code < 1) code = 1;
    while (code > 255 || (code > 1 && live->intervals[code] == 0)) code--;
    budget.cpu = cpu;
    budget.spent = spent;
    __atomic_store_n(&live->interval_code, (uint32_t)code, __ATOMIC_RELAXED);
    if ((uint32_t)code > live->greatest_code)
        __atomic_store_n(&live->greatest_code, (uint32_t)code, __ATOMIC_RELAXED);
    if ((uint32_t)code < live->least_code) __atomic_store_n(&live->least_code, (uint32_t)code, __ATOMIC_RELAXED);
    sampler_move((uint8_t)code);
}

void budget_look(void) {
    if (!budget.on) return;
    uint64_t now = system_coarse_ns();
    if (now < atomic_load_explicit(&budget.looked, memory_order_relaxed) + PERIOD_NS) return;
    if (atomic_exchange_explicit(&budget.looking, true, memory_order_acquire)) return;
    if (now >= atomic_load_explicit(&budget.looked, memory_order_relaxed) + PERIOD_NS) look(now);
    atomic_store_explicit(&budget.looking, false, memory_order_release);
}

void budget_settle(void) {
    if (!budget.on || atomic_exchange_explicit(&budget.looking, true, memory_order_acquire)) return;
    account(system_coarse_ns());
    atomic_store_explicit(&budget.looking, false, memory_order_release);
}
