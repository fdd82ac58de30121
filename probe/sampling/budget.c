#define _GNU_SOURCE
#include "sampling/budget.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "guard/thread_state.h"
#include "platform/system.h"
#include "sampling/arithmetic.h"
#include "sampling/sampler.h"
#include "store/live_file.h"

enum {
    MOST_BYTES = 1 << 30, /* upper bound of the interval, unless it starts above */
    PERIOD_NS = 100000000,
    LATELY_NS = 800000000,
    /* Preemption during a sample is not spent time, so no sample counts for more than this. */
    LONGEST_NS = 64000,
    /* A process gets at least the budget of this part of a CPU.  Otherwise a process that hardly computes has the
     * fewest samples, and saves only CPU that nobody notices. */
    IDLE_PART = 10,
    DEFAULT_PPM = 10000, /* for Java objects in a recording whose native interval is fixed */
    /* The recorder beside the process shares the budget (recording/capture/pace.py): its part is this percentage
     * of the budget of one CPU. */
    RECORDER_PERCENT = 50,
    /* The first walk of a stack takes ten times as long as a later one, and a recording meets most of its stacks at
     * its start.  If these walks moved the interval, a short recording would have hardly any samples.  So the time of
     * a sample above USUAL_NS is granted in addition, up to CREDIT_NS in all. */
    USUAL_NS = 4000,
    CREDIT_NS = 50000000,
    /* Added to both sides, the time granted and the time spent, so that a few samples barely move the interval. */
    PRIOR_NS = 20000,
    /* A countdown that ends in a block of a more rarely sampled class takes this long; no clock times it, and most of
     * it is the draw of the next countdown.  One part in PASSED_OVER_PART of the grant is for these. */
    PASSED_OVER_NS = 40,
    PASSED_OVER_PART = 6,
    /* Two readings of the clock take longer than most frees, so each thread times one free in FREES_A_CLOCK, a prime
     * since programs free in patterns of four and eight.  FREES_A_MEAN timed frees make a mean; before the first mean
     * a free counts FREE_NS, the time for a block that has just been allocated. */
    FREES_A_CLOCK = 17,
    FREES_A_MEAN = 16,
    FREE_NS = 20,
    /* Entering and leaving the probe, and the check whether an adjustment is due. */
    ENTER_NS = 20,
    OCTAVE = 8,        /* interval codes (sampler_mean) */
    RISE = 3 * OCTAVE, /* most at once, a factor of 8: a burst may be over at the next adjustment */
    FALL = OCTAVE,     /* most in a period */
};

/* The part of the grant to aim at: codes are 9 % apart, so the nearest code may spend half of 9 % too much. */
static const double AIM = 0.95;

static struct {
    bool on;
    uint64_t cpu_at_start;
    _Atomic uint64_t adjusted; /* coarse clock at the last adjustment */
    _Atomic bool adjusting;
    _Atomic uint64_t unusual;        /* ns of samples above USUAL_NS since the last adjustment */
    uint64_t read_ns;                /* of one reading of the clock */
    _Atomic uint64_t free_ns;        /* of the free of a sampled block */
    _Atomic uint64_t freeing, freed; /* ns and number of timed frees that are not in free_ns yet */
    struct {
        _Atomic uint64_t spent; /* ns since the last adjustment, at most USUAL_NS of each sample */
        double potential;       /* ns a second that the class would spend under code 1, a mean over LATELY_NS */
        double inverse_seconds; /* integral of 1/interval up to the last adjustment */
        uint8_t code;
    } classes[SAMPLER_CLASSES];
    /* Values at the last adjustment.  Only the thread that holds `adjusting` uses these and the classes' codes. */
    uint64_t cpu, lost, passed_over;
    uint64_t credit; /* ns left of CREDIT_NS */
    uint8_t code;    /* code of the countdowns, for small blocks */
} budget;

void budget_describe(struct offheap_header *header, const struct options *options) {
    if (!options->budget) return;
    header->budget_ppm = options->budget;
    uint32_t start = 1;
    for (unsigned code = 2; code < OFFHEAP_JAVA_CODE; code++) {
        uint64_t mean = sampler_mean(options->least, code);
        if (mean > MOST_BYTES) break;
        header->intervals[code] = mean;
        if (mean <= options->interval) start = code;
    }
    header->interval_code = header->least_code = header->greatest_code = start;
}

/* The least of 16 readings excludes preemption. */
static uint64_t time_of_a_reading(void) {
    uint64_t least = UINT64_MAX, before = system_monotonic_ns();
    for (int i = 0; i < 16; i++) {
        uint64_t now = system_monotonic_ns();
        if (now - before < least) least = now - before;
        before = now;
    }
    return least < USUAL_NS ? least : USUAL_NS;
}

void budget_start(void) {
    budget.on = live->budget_ppm != 0;
    budget.cpu = budget.lost = budget.passed_over = 0;
    budget.credit = CREDIT_NS;
    budget.code = (uint8_t)live->interval_code;
    for (unsigned i = 0; i < SAMPLER_CLASSES; i++) {
        atomic_store(&budget.classes[i].spent, 0);
        budget.classes[i].inverse_seconds = budget.classes[i].potential = 0;
        budget.classes[i].code = budget.code;
    }
    atomic_store(&budget.unusual, 0);
    budget.read_ns = budget.on ? time_of_a_reading() : 0;
    atomic_store(&budget.free_ns, FREE_NS);
    atomic_store(&budget.freeing, 0);
    atomic_store(&budget.freed, 0);
    budget.cpu_at_start = system_cpu_ns();
    atomic_store(&budget.adjusted, system_coarse_ns());
    atomic_store(&budget.adjusting, false);
    live->adjusted_ns = live->start_monotonic_ns;
}

uint64_t budget_clock(void) { return budget.on ? system_monotonic_ns() : 0; }

void budget_spend(uint64_t began, size_t size) {
    if (!began) return;
    uint64_t spent = system_monotonic_ns() - began;
    if (spent > LONGEST_NS) spent = LONGEST_NS;
    /* Charges the free now, not when it happens: otherwise a mass free coarsens sampling as if it went on forever. */
    spent += ENTER_NS + budget.read_ns + atomic_load_explicit(&budget.free_ns, memory_order_relaxed);
    __atomic_fetch_add(&live->spent_ns, spent, __ATOMIC_RELAXED);
    if (spent > USUAL_NS) {
        atomic_fetch_add_explicit(&budget.unusual, spent - USUAL_NS, memory_order_relaxed);
        spent = USUAL_NS;
    }
    atomic_fetch_add_explicit(&budget.classes[sampler_class(size)].spent, spent, memory_order_relaxed);
}

uint64_t budget_clock_of_free(void) {
    if (!budget.on || self.frees-- > 0) return 0;
    self.frees = FREES_A_CLOCK - 1;
    return system_monotonic_ns();
}

void budget_spend_on_free(uint64_t began, bool found) {
    /* Live samples cause the lookups that find nothing, and samples may live forever.  If later samples paid for
     * these lookups, the probe would take fewer and fewer samples. */
    if (!began || !found) return;
    uint64_t spent = system_monotonic_ns() - began;
    if (spent > USUAL_NS) spent = USUAL_NS;
    spent = spent > budget.read_ns ? spent - budget.read_ns : 0;
    atomic_fetch_add_explicit(&budget.freeing, spent, memory_order_relaxed);
    atomic_fetch_add_explicit(&budget.freed, 1, memory_order_relaxed);
}

static void average_frees(void) {
    uint64_t freed = atomic_load_explicit(&budget.freed, memory_order_relaxed);
    if (freed < FREES_A_MEAN) return;
    atomic_fetch_sub_explicit(&budget.freed, freed, memory_order_relaxed);
    uint64_t lately = atomic_exchange_explicit(&budget.freeing, 0, memory_order_relaxed) / freed;
    uint64_t before = atomic_load_explicit(&budget.free_ns, memory_order_relaxed);
    atomic_store_explicit(&budget.free_ns, (before + lately) / 2, memory_order_relaxed);
}

/* Adds the time since the last adjustment to the figures of the live file. */
static uint64_t account(uint64_t now) {
    uint64_t before = atomic_load_explicit(&budget.adjusted, memory_order_relaxed);
    uint64_t passed = now > before ? now - before : 0;
    double rarest = 0;
    for (unsigned i = 0; i < SAMPLER_CLASSES; i++) {
        double *sum = &budget.classes[i].inverse_seconds;
        *sum += (double)passed * 1e-9 / (double)live->intervals[budget.classes[i].code];
        if (i == 0 || *sum < rarest) rarest = *sum;
    }
    __atomic_store(&live->inverse_seconds, &rarest, __ATOMIC_RELAXED);
    __atomic_store_n(&live->cpu_ns, system_cpu_ns() - budget.cpu_at_start, __ATOMIC_RELAXED);
    __atomic_store_n(&live->adjusted_ns, now, __ATOMIC_RELAXED);
    atomic_store_explicit(&budget.adjusted, now, memory_order_relaxed);
    return passed;
}

/* Returns by how many codes the interval must rise or, if negative, fall.  While blocks are small against the interval,
 * the time spent is inverse to the interval, so the ratio of time spent to time granted is the factor that the interval
 * lacks.  For larger blocks a few adjustments come closer. */
static int step(double spent, double granted, uint64_t passed) {
    double octaves = natural_log((spent + PRIOR_NS) / (granted + PRIOR_NS)) / 0.69314718055994531;
    double codes = octaves * OCTAVE, least = -(double)FALL * (double)passed / PERIOD_NS;
    if (codes < least) codes = least;
    if (codes < -255) codes = -255;
    if (codes > RISE) codes = RISE;
    return (int)(codes < 0 ? codes - 0.5 : codes + 0.5);
}

/* Has the full table lost a block since the last adjustment?  Then the interval must rise, although CPU is left. */
static bool crowded(void) {
    uint64_t lost = __atomic_load_n(&live->losses[OFFHEAP_LOST_BLOCKS], __ATOMIC_RELAXED);
    bool more = lost != budget.lost;
    budget.lost = lost;
    return more;
}

/* The probability of a block in the middle of its class, under this code. */
static double probability(unsigned size_class, uint8_t code) {
    return one_minus_exp(1.5 * (double)(UINT64_C(1) << size_class) / (double)live->intervals[code]);
}

/* A class has few samples between two adjustments, so its potential is a mean over LATELY_NS, except at the start of a
 * burst. */
static void estimate_potential(unsigned size_class, uint64_t passed) {
    double *potential = &budget.classes[size_class].potential;
    double spent = (double)atomic_exchange_explicit(&budget.classes[size_class].spent, 0, memory_order_relaxed);
    /* Nearly all classes return here: an adjustment must stay cheaper than the samples. */
    if (spent == 0 && *potential == 0) return;
    double now = spent / ((double)passed * 1e-9);
    if (now > 0) now *= probability(size_class, 1) / probability(size_class, budget.classes[size_class].code);
    *potential =
        now > 4 * *potential ? now : *potential + (now - *potential) * one_minus_exp((double)passed / LATELY_NS);
    if (*potential < 1) *potential = 0;
}

static double spending(unsigned size_class, uint8_t code) {
    double potential = budget.classes[size_class].potential;
    if (potential == 0 || code == 1) return potential;
    return potential * probability(size_class, code) / probability(size_class, 1);
}

/* The square of a class's root is what the class spends when it is sampled as finely as possible, in ns a second.  If
 * all classes together would spend more than `granted`, each may spend at most a factor times its root.  Returns the
 * factor.  Equal parts would leave a class that churns too few samples to show a leak in it.  Proportional parts, as
 * one interval for all classes gives them, would leave next to nothing to the other classes. */
static double factor_of(double granted, const double *roots) {
    double low = 0, high = 0;
    for (unsigned i = 0; i < SAMPLER_CLASSES; i++)
        if (roots[i] > high) high = roots[i];
    for (int round = 0; round < 30; round++) {
        double factor = (low + high) / 2, sum = 0;
        for (unsigned i = 0; i < SAMPLER_CLASSES; i++) sum += roots[i] * (roots[i] < factor ? roots[i] : factor);
        if (sum > granted) high = factor;
        else low = factor;
    }
    return high;
}

/* The finest code of a class: small blocks share a countdown. */
static uint8_t finest(unsigned size_class) { return UINT64_C(1) << size_class < SAMPLER_LARGE ? budget.code : 1; }

static uint8_t bounded(int code, uint8_t least) {
    if (code < least) code = least;
    while (code >= (int)OFFHEAP_JAVA_CODE || (code > least && live->intervals[code] == 0)) code--;
    return (uint8_t)code;
}

/* `granted`: ns that sampling may take of the `passed` ns.  `passing_over`: ns that countdowns without a sample
 * took. */
static void move(double granted, double passing_over, uint64_t passed) {
    double roots[SAMPLER_CLASSES], seconds = (double)passed * 1e-9;
    for (unsigned i = 0; i < SAMPLER_CLASSES; i++) {
        estimate_potential(i, passed);
        roots[i] = square_root(spending(i, finest(i)));
    }
    double factor = factor_of(passing_over < granted ? (granted - passing_over) / seconds : 0, roots);
    int least = crowded() ? OCTAVE : -255;
    uint8_t greatest = 1, lowest = 255;
    int steps = step(passing_over, granted / PASSED_OVER_PART, passed);
    budget.code = bounded(budget.code + (steps > least ? steps : least), 1);
    int unused = step(0, granted, passed);
    for (unsigned i = 0; i < SAMPLER_CLASSES; i++) {
        uint8_t code = budget.classes[i].code;
        double may = roots[i] > factor ? factor * roots[i] * seconds : granted;
        steps = roots[i] == 0 ? unused : step(spending(i, code) * seconds, may, passed);
        code = bounded(code + (steps > least ? steps : least), finest(i));
        budget.classes[i].code = code;
        if (code > greatest) greatest = code;
        if (code < lowest) lowest = code;
        sampler_move_class(i, code);
    }
    sampler_move(budget.code);
    __atomic_store_n(&live->interval_code, greatest, __ATOMIC_RELAXED);
    if (greatest > live->greatest_code) __atomic_store_n(&live->greatest_code, greatest, __ATOMIC_RELAXED);
    if (lowest < live->least_code) __atomic_store_n(&live->least_code, lowest, __ATOMIC_RELAXED);
}

static double share(void) { return 1e-6 * (double)(live->budget_ppm ? live->budget_ppm : DEFAULT_PPM); }

/* The budget is a share of the process's CPU time, or of one CPU if the process uses less.  Returns the ns of that time
 * without the recorder's part, for a process that used `used` ns in the last `passed` ns. */
static double rest(double used, double passed) {
    return (used > passed ? used : passed) - passed * RECORDER_PERCENT / 100;
}

/* The ns that sampling of native memory may take: at most the share of the process's CPU time, and half of that if the
 * recording follows Java objects. */
static double probe_part(double used, double passed, bool objects) {
    if (used < passed / IDLE_PART) used = passed / IDLE_PART;
    double all = rest(used, passed);
    if (used < all) all = used;
    return AIM * share() * (objects ? all / 2 : all);
}

/* Java objects get what the part of native memory leaves.  A Java sample costs ten times as much as a sample of malloc,
 * so the share of a process that hardly computes would pay for a dozen Java samples a second. */
double budget_of_objects(uint64_t used, uint64_t passed) {
    return AIM * share() * rest((double)used, (double)passed) - probe_part((double)used, (double)passed, true);
}

static bool follows_objects(void) {
    return __atomic_load_n(&live->java_heap, __ATOMIC_RELAXED) == OFFHEAP_JAVA_HEAP_FOLLOWED;
}

static void adjust(uint64_t now) {
    uint64_t passed = account(now);
    if (!passed) return;
    uint64_t cpu = live->cpu_ns;
    double granted = probe_part((double)(cpu - budget.cpu), (double)passed, follows_objects());
    average_frees();
    uint64_t unusual = atomic_exchange_explicit(&budget.unusual, 0, memory_order_relaxed);
    uint64_t credited = unusual < budget.credit ? unusual : budget.credit;
    budget.credit -= credited;
    double beyond = (double)(unusual - credited);
    granted = beyond < granted ? granted - beyond : 0;
    uint64_t passed_over = sampler_passed_over(), lately = passed_over - budget.passed_over;
    __atomic_fetch_add(&live->spent_ns, lately * PASSED_OVER_NS, __ATOMIC_RELAXED);
    budget.passed_over = passed_over;
    budget.cpu = cpu;
    move(granted, (double)(lately * PASSED_OVER_NS), passed);
}

void budget_adjust(void) {
    if (!budget.on) return;
    uint64_t now = system_coarse_ns();
    if (now < atomic_load_explicit(&budget.adjusted, memory_order_relaxed) + PERIOD_NS) return;
    if (atomic_exchange_explicit(&budget.adjusting, true, memory_order_acquire)) return;
    if (now >= atomic_load_explicit(&budget.adjusted, memory_order_relaxed) + PERIOD_NS) adjust(now);
    atomic_store_explicit(&budget.adjusting, false, memory_order_release);
}

void budget_settle(void) {
    if (!budget.on || atomic_exchange_explicit(&budget.adjusting, true, memory_order_acquire)) return;
    account(system_coarse_ns());
    atomic_store_explicit(&budget.adjusting, false, memory_order_release);
}
