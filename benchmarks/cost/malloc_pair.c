/*
 * What one allocation and its free cost: thread-CPU ns a pair, under whatever is preloaded.
 *
 *     malloc_pair WORKLOAD THREADS WINDOW DEPTH MILLISECONDS
 *
 * WORKLOAD  pair     free the oldest of WINDOW live 64-byte blocks, allocate another
 *           mixed    the same with 16 B to 1 MiB, small ones far more often than large ones
 *           realloc  a block that grows from 16 B to 4 KiB in 8 steps, then its free: 9 calls are one "pair"
 *           cross    half of the threads allocate 64 bytes, the other half free them
 *           wander   as pair, each from another depth of call stack, 1 to 32 frames deeper
 * DEPTH     frames of the allocating thread's call stack, the C library's own two at its start included
 *
 * Prints the ns per pair over all threads: CPU time of the threads while they worked, divided by the
 * pairs they did.  2,000 untouched blocks of 1 MiB stay live meanwhile, so that a sampling tool has samples
 * to look freed blocks up in.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 64, BALLAST = 2000, BATCH = 1000, THREADS_MAX = 64, PIPE = 4096, MIXES = 8192, OUTER_FRAMES = 4 };

struct pipe {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Atomic bool closed;
    void *blocks[PIPE];
};

struct worker {
    _Alignas(64) pthread_t thread;
    unsigned index;
    void (*leaf)(struct worker *); /* what the innermost frame calls */
    void **live;
    size_t at;
    uint64_t nanoseconds, pairs;
};

static struct {
    void (*work)(struct worker *);
    unsigned threads, depth;
    size_t window;
    uint64_t nanoseconds;
    uint32_t sizes[MIXES];
    struct pipe pipes[THREADS_MAX / 2];
    pthread_barrier_t ready;
} bench;

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A compiler may remove an allocation that nobody uses. */
static inline void *use(void *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    if (!block) abort();
    return block;
}

static inline size_t size_of(bool mixed, size_t i) { return mixed ? bench.sizes[i % MIXES] : BLOCK; }

static inline __attribute__((always_inline)) void churn(struct worker *self, bool mixed) {
    void **live = use(calloc(bench.window, sizeof *live));
    for (size_t i = 0; i < bench.window; i++) live[i] = use(malloc(size_of(mixed, i)));
    size_t at = 0, step = self->index;
    /* Once round, so that the C library has given the blocks their usual places. */
    for (size_t i = 0; i < bench.window; i++) {
        free(live[i]);
        live[i] = use(malloc(size_of(mixed, step++)));
    }
    pthread_barrier_wait(&bench.ready);
    uint64_t start = cpu_ns(), spent = 0;
    for (; spent < bench.nanoseconds; spent = cpu_ns() - start) {
        for (int i = 0; i < BATCH; i++) {
            free(live[at]);
            live[at] = use(malloc(size_of(mixed, step++)));
            if (++at == bench.window) at = 0;
        }
        self->pairs += BATCH;
    }
    self->nanoseconds = spent;
    for (size_t i = 0; i < bench.window; i++) free(live[i]);
    free(live);
}

static void pair(struct worker *self) { churn(self, false); }
static void mixed(struct worker *self) { churn(self, true); }

static void replace_one(struct worker *self) {
    free(self->live[self->at]);
    self->live[self->at] = use(malloc(BLOCK));
    if (++self->at == bench.window) self->at = 0;
}

static void descend(struct worker *self, unsigned left, unsigned level);

static void wander(struct worker *self) {
    self->live = use(calloc(bench.window, sizeof *self->live));
    self->leaf = replace_one;
    uint32_t random = 1;
    pthread_barrier_wait(&bench.ready);
    uint64_t start = cpu_ns(), spent = 0;
    for (; spent < bench.nanoseconds; spent = cpu_ns() - start) {
        for (int i = 0; i < BATCH; i++) {
            random = random * 1103515245 + 12345;
            descend(self, 1 + (random >> 27), random >> 24 & 7);
        }
        self->pairs += BATCH;
    }
    self->nanoseconds = spent;
    for (size_t i = 0; i < bench.window; i++) free(self->live[i]);
    free(self->live);
}

static void reallocs(struct worker *self) {
    pthread_barrier_wait(&bench.ready);
    uint64_t start = cpu_ns(), spent = 0;
    for (; spent < bench.nanoseconds; spent = cpu_ns() - start) {
        for (int i = 0; i < BATCH / 10; i++) {
            char *block = use(malloc(16));
            for (size_t size = 32; size <= 4096; size *= 2) block = use(realloc(block, size));
            free(block);
        }
        self->pairs += BATCH / 10;
    }
    self->nanoseconds = spent;
}

/* Waiting is not counted: a thread's clock stands while the other side is slower and it yields. */
static void cross(struct worker *self) {
    struct pipe *pipe = &bench.pipes[self->index / 2];
    bool producer = self->index % 2 == 0;
    pthread_barrier_wait(&bench.ready);
    for (;;) {
        bool closed = atomic_load(&pipe->closed); /* before the counts: afterwards they are final */
        uint64_t written = atomic_load_explicit(&pipe->written, memory_order_acquire);
        uint64_t read = atomic_load_explicit(&pipe->read, memory_order_acquire);
        uint64_t count = producer ? PIPE - (written - read) : written - read;
                if (count == 0 && closed) break;
        /* A few at a time would measure the clock. */
        if (count < PIPE / 4 && !closed) {
            sched_yield();
            continue;
        }
        uint64_t start = cpu_ns();
        for (uint64_t i = 0; i < count; i++) {
            if (producer) pipe->blocks[(written + i) % PIPE] = use(malloc(BLOCK));
            else free(pipe->blocks[(read + i) % PIPE]);
        }
        uint64_t took = cpu_ns() - start;
        atomic_fetch_add_explicit(producer ? &pipe->written : &pipe->read, count, memory_order_release);
        self->nanoseconds += took;
        self->pairs += producer ? count : 0;
        if (producer && self->nanoseconds >= bench.nanoseconds) {
            atomic_store(&pipe->closed, true);
            break;
        }
    }
}

/* Frames of different code and length, as a real stack has. */
#define LEVELS(LEVEL) LEVEL(0) LEVEL(1) LEVEL(2) LEVEL(3) LEVEL(4) LEVEL(5) LEVEL(6) LEVEL(7)
#define LEVEL(n)                                                                                \
    static __attribute__((noinline)) void level_##n(struct worker *self, unsigned left) {       \
        volatile char frame[16 + 24 * n];                                                       \
        frame[0] = (char)left;                                                                  \
        descend(self, left - 1, (n + 1) % 8);                                                   \
        frame[1] = frame[0];                                                                    \
    }
LEVELS(LEVEL)
#define NAME(n) level_##n,
static void (*const levels[])(struct worker *, unsigned) = {LEVELS(NAME)};

static void descend(struct worker *self, unsigned left, unsigned level) {
    if (left == 0) self->leaf(self);
    else levels[level](self, left);
    __asm__ volatile(""); /* no tail call */
}

static void *run(void *argument) {
    descend(argument, bench.depth > OUTER_FRAMES ? bench.depth - OUTER_FRAMES : 0, 0);
    return NULL;
}

static void fill_sizes(void) {
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < MIXES; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        /* Half of them below 128 bytes, one in 2^12 up to 1 MiB. */
        unsigned doublings = 0;
        for (uint64_t coins = random >> 32; doublings < 16 && (coins & 1); coins >>= 1) doublings++;
        uint32_t size = 16u << doublings;
        bench.sizes[i] = size + (uint32_t)(random % size);
    }
}

static bool choose(const char *name) {
    static const struct {
        const char *name;
        void (*work)(struct worker *);
    } workloads[] = {{"pair", pair}, {"mixed", mixed}, {"realloc", reallocs}, {"cross", cross}, {"wander", wander}};
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(workloads[i].name, name) == 0) bench.work = workloads[i].work;
    return bench.work;
}

int main(int count, char **words) {
    if (count != 6 || !choose(words[1])) {
        fprintf(stderr, "usage: %s pair|mixed|realloc|cross|wander THREADS WINDOW DEPTH MILLISECONDS\n", words[0]);
        return 2;
    }
    bench.threads = (unsigned)atoi(words[2]);
    bench.window = (size_t)atol(words[3]);
    bench.depth = (unsigned)atoi(words[4]);
    bench.nanoseconds = (uint64_t)(atof(words[5]) * 1e6);
    if (bench.threads < 1 || bench.threads > THREADS_MAX || bench.window < 1) return 2;
    if (bench.work == cross && bench.threads % 2 != 0) return 2;
    fill_sizes();

    static void *ballast[BALLAST];
    for (size_t i = 0; i < BALLAST; i++) ballast[i] = use(malloc(1 << 20));

    static struct worker workers[THREADS_MAX];
    pthread_barrier_init(&bench.ready, NULL, bench.threads);
    for (unsigned i = 0; i < bench.threads; i++) {
        workers[i].index = i;
        workers[i].leaf = bench.work;
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0) abort();
    }
    uint64_t nanoseconds = 0, pairs = 0;
    for (unsigned i = 0; i < bench.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        nanoseconds += workers[i].nanoseconds;
        pairs += workers[i].pairs;
    }
    printf("%.3f\n", (double)nanoseconds / (double)pairs);
    for (size_t i = 0; i < BALLAST; i++) free(use(ballast[i]));
    return 0;
}
