#define _GNU_SOURCE
#include "sampler.h"

#include <stdatomic.h>

#include "arithmetic.h"
#include "system.h"

_Thread_local struct sampler sampler;

/* While nothing records, a thread re-enters the slow path every so many bytes: never again would
 * leave it unsampled in the recording that starts next.  Before the probe has woken up: at once. */
enum { IDLE_BYTES = 256 * 1024 };

static struct {
    _Atomic uint64_t interval;
    _Atomic uint64_t seed;
    _Atomic uint32_t session; /* odd while recording */
    _Atomic uint64_t threads; /* seeded in this session */
    _Atomic uint64_t idle;    /* bytes */
} common;

/* xorshift64*; never 0. */
static uint64_t next_random(void) {
    uint64_t x = sampler.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    sampler.random = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

static uint64_t draw(uint64_t interval) {
    double uniform = (double)((next_random() >> 11) + 1) * 0x1p-53; /* (0, 1] */
    double bytes = -natural_log(uniform) * (double)interval;
    return bytes < 1 ? 1 : (uint64_t)bytes + 1;
}

/* splitmix64: neighbouring seeds give unrelated streams. */
static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

void sampler_start(uint64_t interval, uint64_t seed) {
    atomic_store(&common.interval, interval);
    atomic_store(&common.seed, seed ? seed : system_monotonic_ns() ^ (uint64_t)getpid() << 32);
    atomic_store(&common.threads, 0);
    atomic_fetch_add(&common.session, 1);
}

void sampler_stop(void) { atomic_fetch_add(&common.session, 1); }

void sampler_rest(void) { atomic_store(&common.idle, IDLE_BYTES); }

void sampler_join(void) {
    uint32_t session = atomic_load_explicit(&common.session, memory_order_relaxed);
    if (sampler.session == session) return;
    uint64_t interval = atomic_load_explicit(&common.interval, memory_order_relaxed);
    uint64_t thread = atomic_fetch_add_explicit(&common.threads, 1, memory_order_relaxed);
    sampler.session = session;
    sampler.random = mix(atomic_load_explicit(&common.seed, memory_order_relaxed) + thread) | 1;
    sampler.countdown = interval ? draw(interval) : 0;
}

bool sampler_takes(size_t size) {
    uint32_t session = atomic_load_explicit(&common.session, memory_order_relaxed);
    if (!(session & 1)) {
        sampler.countdown = atomic_load_explicit(&common.idle, memory_order_relaxed);
        return false;
    }
    uint64_t interval = atomic_load_explicit(&common.interval, memory_order_relaxed);
    sampler_join();
    if (interval == 0) return true;
    if (sampler_passes(size)) return false;
    sampler.countdown = draw(interval);
    return true;
}

uint8_t sampler_code(void) { return atomic_load_explicit(&common.interval, memory_order_relaxed) ? 1 : 0; }

double sampler_weight(size_t size) {
    uint64_t interval = atomic_load_explicit(&common.interval, memory_order_relaxed);
    if (interval == 0) return 1;
    double probability = one_minus_exp((double)(size ? size : 1) / (double)interval);
    return 1 / probability;
}
