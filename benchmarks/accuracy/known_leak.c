/*
 * Leaks a known number of blocks from many threads at once, under churn: what do profilers make of it?
 *
 *     accuracy THREADS BLOCKS BYTES CHURN
 *
 * BLOCKS blocks of BYTES each are kept for ever; for each of them CHURN others of the same size are made
 * and freed, by the thread that made them or by another one.  Every block that churn made is freed at the end, so
 * whatever a profiler still says is live through churning_site is false.  Both sites have the same size of block and
 * the same callers, only their own names differ.
 *
 * Prints "ready PID" at the end and waits until its input is closed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 256, SHELF = 64 };

static struct {
    long threads, blocks, churn;
    size_t bytes;
    pthread_barrier_t begin;
    /* Blocks of churn on their way from the thread that made them to the one that frees them. */
    _Atomic(void *) shelf[SHELF];
} bench;

void *leaking_site(void);
void *churning_site(void);

/* What is done to the block keeps malloc from being a tail call, which would leave no frame of the site. */
__attribute__((noinline)) void *leaking_site(void) {
    char *volatile block = malloc(bench.bytes);
    *block = 1;
    return block;
}

__attribute__((noinline)) void *churning_site(void) {
    char *volatile block = malloc(bench.bytes);
    *block = 1;
    return block;
}

static void *work(void *argument) {
    long index = (long)(intptr_t)argument;
    uint64_t random = (uint64_t)index * 0x9e3779b97f4a7c15u + 1;
    pthread_barrier_wait(&bench.begin);
    for (long i = index; i < bench.blocks; i += bench.threads) {
        for (long j = 0; j < bench.churn; j++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            free(atomic_exchange(&bench.shelf[(random >> 33) % SHELF], churning_site()));
        }
        /* Nobody keeps its address: that is what leaking is. */
        leaking_site();
    }
    return NULL;
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: accuracy THREADS BLOCKS BYTES CHURN\n");
        return 2;
    }
    bench.threads = atol(words[1]);
    bench.blocks = atol(words[2]);
    bench.bytes = (size_t)atol(words[3]);
    bench.churn = atol(words[4]);
    if (bench.threads < 1 || bench.threads > THREADS_MAX) return 2;
    pthread_t threads[THREADS_MAX];
    pthread_barrier_init(&bench.begin, NULL, (unsigned)bench.threads);
    for (long i = 0; i < bench.threads; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i)) abort();
    }
    for (long i = 0; i < bench.threads; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < SHELF; i++) free(atomic_exchange(&bench.shelf[i], NULL));
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
