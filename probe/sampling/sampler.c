#define _GNU_SOURCE
#include "sampling/sampler.h"

#include <stdatomic.h>

#include "platform/system.h"
#include "sampling/arithmetic.h"

#ifdef SHARE_A_LINE
_Atomic uint64_t sampler_shared;
#endif

/* While nothing records, a thread takes the slow path once in IDLE_BYTES; otherwise it never joins the next recording.
 * Before the probe has woken up, every block takes the slow path. */
enum { IDLE_BYTES = 256 * 1024 };

/* All threads write to one cache line, so each writes once for this many countdowns. */
enum { PASSED_OVER_AT_ONCE = 64 };

/* The mean of an interval code in this recording, in bytes, and its inverse: a division takes longer than all other
 * work on a large block. */
struct scale {
    _Atomic double mean, inverse;
};

static struct {
    _Atomic uint64_t interval; /* of code 1 */
    _Atomic uint32_t code;
    _Atomic uint64_t seed;
    _Atomic uint32_t session; /* odd while recording */
    _Atomic uint64_t threads; /* seeded in this session */
    _Atomic uint64_t idle;    /* bytes between two slow paths while nothing records */
    _Atomic uint64_t passed_over;
    _Atomic uint8_t codes[SAMPLER_CLASSES];
    struct scale scales[UINT8_MAX + 1];
} common;

static double mean_of(uint8_t code) { return atomic_load_explicit(&common.scales[code].mean, memory_order_relaxed); }
static double inverse_of(uint8_t code) {
    return atomic_load_explicit(&common.scales[code].inverse, memory_order_relaxed);
}

/* xorshift64*; never 0. */
static uint64_t next_random(void) {
    uint64_t x = self.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    self.random = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

/* (0, 1] */
static double next_uniform(void) { return (double)((next_random() >> 11) + 1) * 0x1p-53; }

static double next_exponential(void) { return -natural_log(next_uniform()); }

uint64_t sampler_mean(uint64_t least, unsigned code) {
    /* 2^(k/8) */
    static const double steps[] = {1,
                                   1.0905077326652577,
                                   1.1892071150027210,
                                   1.2968395546510096,
                                   1.4142135623730951,
                                   1.5422108254079408,
                                   1.6817928305074290,
                                   1.8340080864093424};
    unsigned step = code - 1;
    return (uint64_t)((double)least * steps[step & 7] + 0.5) << (step >> 3);
}

static void count_down_from(uint64_t bytes) {
    self.countdown = bytes < SAMPLER_LARGE ? bytes : SAMPLER_LARGE;
    self.beyond = bytes - self.countdown;
}

/* Draws with the present mean. */
static void draw_countdown(void) {
    self.code = (uint8_t)atomic_load_explicit(&common.code, memory_order_relaxed);
    self.chance = next_uniform();
    double bytes = next_exponential() * mean_of(self.code);
    count_down_from(bytes < 1 ? 1 : (uint64_t)bytes + 1);
}

/* splitmix64: neighbouring seeds give unrelated streams. */
static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

void sampler_start(uint64_t least, uint8_t code, uint64_t seed) {
    atomic_store(&common.interval, least);
    atomic_store(&common.code, code ? code : 1);
    atomic_store(&common.seed, seed ? seed : system_monotonic_ns() ^ (uint64_t)getpid() << 32);
    atomic_store(&common.threads, 0);
    atomic_store(&common.passed_over, 0);
    for (unsigned i = 0; i < SAMPLER_CLASSES; i++) atomic_store(&common.codes[i], code ? code : 1);
    for (unsigned i = 1; i <= UINT8_MAX; i++) {
        double mean = (double)sampler_mean(least, i);
        atomic_store_explicit(&common.scales[i].mean, mean, memory_order_relaxed);
        atomic_store_explicit(&common.scales[i].inverse, 1 / mean, memory_order_relaxed);
    }
    atomic_store(&common.session, (atomic_load(&common.session) + 1) | 1);
}

void sampler_move(uint8_t code) { atomic_store_explicit(&common.code, code, memory_order_relaxed); }

void sampler_move_class(unsigned size_class, uint8_t code) {
    atomic_store_explicit(&common.codes[size_class], code, memory_order_relaxed);
}

uint64_t sampler_passed_over(void) { return atomic_load_explicit(&common.passed_over, memory_order_relaxed); }

/* May be called twice: a VM's death may come before a stop. */
void sampler_stop(void) { atomic_store(&common.session, (atomic_load(&common.session) + 1) & ~UINT32_C(1)); }

void sampler_rest(void) { atomic_store(&common.idle, IDLE_BYTES); }

/* Out of line: a thread joins once a recording. */
__attribute__((noinline)) void sampler_join(void) {
    uint32_t session = atomic_load_explicit(&common.session, memory_order_acquire);
    if (self.session == session) return;
    uint64_t interval = atomic_load_explicit(&common.interval, memory_order_relaxed);
    uint64_t thread = atomic_fetch_add_explicit(&common.threads, 1, memory_order_relaxed);
    self.session = session;
    self.random = mix(atomic_load_explicit(&common.seed, memory_order_relaxed) + thread) | 1;
    self.countdown = self.beyond = self.passed_over = 0;
    if (!interval) return;
    draw_countdown();
    self.large = next_exponential();
}

static double probability(size_t size, uint8_t code) {
    return one_minus_exp((double)(size ? size : 1) * inverse_of(code));
}

static uint8_t class_code(size_t size) {
    return atomic_load_explicit(&common.codes[sampler_class(size)], memory_order_relaxed);
}

/* A countdown ended in this block: is the block sampled under its class's mean as well?  Usually not, and
 * x (1 - x/2) <= 1 - exp(-x) <= x decides that without an exponential. */
static bool class_takes(size_t size) {
    uint8_t counted = self.code, code = class_code(size);
    self.taken = code > counted ? code : counted;
    if (code <= counted) return true;
    double finer = mean_of(counted), mean = mean_of(code);
    if (self.chance * (finer - 0.5 * (double)size) * mean > finer * finer) return false;
    return self.chance * probability(size, counted) <= probability(size, code);
}

static bool large_passes(size_t size) {
    self.taken = class_code(size);
    double its = (double)size * inverse_of(self.taken);
    if (its >= self.large) return false;
    self.large -= its;
    return true;
}

static void count_passed_over(void) {
    if (++self.passed_over < PASSED_OVER_AT_ONCE) return;
    atomic_fetch_add_explicit(&common.passed_over, self.passed_over, memory_order_relaxed);
    self.passed_over = 0;
}

static bool passes_on(size_t size) {
    if (size >= SAMPLER_LARGE) return large_passes(size);
    uint64_t after = size - self.countdown;
    if (after >= self.beyond) {
        if (class_takes(size)) return false;
        count_passed_over();
        draw_countdown();
    } else if (self.code == atomic_load_explicit(&common.code, memory_order_relaxed)) {
        /* Only a piece of the countdown ends within this block. */
        count_down_from(self.beyond - after);
    } else {
        /* The old mean decides about this block; the new mean applies from the next block on. */
        draw_countdown();
    }
    return true;
}

bool sampler_passes_on(size_t size) {
    uint64_t interval = atomic_load_explicit(&common.interval, memory_order_relaxed);
    uint32_t session = atomic_load_explicit(&common.session, memory_order_acquire); /* before scales[] */
    /* An allocation by the probe must not change `taken`, which belongs to the block that the probe records. */
    if (interval == 0 || self.session != session || !(session & 1) || self.inside) return false;
    return passes_on(size);
}

bool sampler_takes(size_t size) {
    uint32_t session = atomic_load_explicit(&common.session, memory_order_acquire);
    if (!(session & 1)) {
        self.countdown = atomic_load_explicit(&common.idle, memory_order_relaxed);
        return false;
    }
    uint64_t interval = atomic_load_explicit(&common.interval, memory_order_relaxed);
    sampler_join();
    if (interval == 0) return true;
    if (sampler_passes(size) || passes_on(size)) return false;
    if (size >= SAMPLER_LARGE) self.large = next_exponential();
    else draw_countdown();
    return true;
}

uint8_t sampler_code(void) { return atomic_load_explicit(&common.interval, memory_order_relaxed) ? self.taken : 0; }

double sampler_weight_under(size_t size, uint8_t code) { return code ? 1 / probability(size, code) : 1; }

double sampler_weight(size_t size) { return sampler_weight_under(size, sampler_code()); }
