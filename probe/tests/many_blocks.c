/*
 * many_blocks COUNT THREADS [FREED [STACK]]: holds COUNT blocks of 16 to 79 bytes, in threads with STACK bytes of
 * stack.  Prints the longest time of one malloc, and the number of mallocs that took more than a millisecond without
 * a context switch.  Then waits for a line, frees FREED per cent of the blocks, and waits again.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static long count, threads;
static void **blocks;
static _Thread_local long switches;

struct worst {
    uint64_t longest, over; /* nanoseconds; mallocs */
};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int switched(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    long before = switches;
    switches = usage.ru_nivcsw + usage.ru_nvcsw;
    return switches != before;
}

static void *hold(void *argument) {
    long number = (long)(intptr_t)argument;
    struct worst *worst = calloc(1, sizeof *worst);
    switched();
    for (long i = number; i < count; i += threads) {
        uint64_t before = now();
        blocks[i] = malloc(16 + (size_t)(i & 63));
        uint64_t took = now() - before;
        if (took < 200000) continue;
        if (switched()) continue;
        if (took > worst->longest) worst->longest = took;
        if (took > 1000000) worst->over++;
    }
    return worst;
}

int main(int words, char **word) {
    count = atol(word[1]);
    threads = atol(word[2]);
    long freed = words > 3 ? atol(word[3]) : 0;
    blocks = calloc((size_t)count, sizeof *blocks);
    pthread_t *started = calloc((size_t)threads, sizeof *started);
    uint64_t began = now();
    struct worst worst = {0};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (words > 4 && pthread_attr_setstacksize(&attributes, (size_t)atol(word[4])) != 0) return 2;
    for (long i = 0; i < threads; i++) pthread_create(&started[i], &attributes, hold, (void *)(intptr_t)i);
    for (long i = 0; i < threads; i++) {
        struct worst *its;
        pthread_join(started[i], (void **)&its);
        if (its->longest > worst.longest) worst.longest = its->longest;
        worst.over += its->over;
    }
    printf("held %ld, %.1f s, longest %.3f ms, over 1 ms %lu\n", count, (double)(now() - began) / 1e9,
           (double)worst.longest / 1e6, (unsigned long)worst.over);
    fflush(stdout);
    getchar();
    for (long i = 0; i < count; i++)
        if (i % 100 < freed) free(blocks[i]);
    puts("freed");
    fflush(stdout);
    getchar();
    return 0;
}
