/* Are blocks sampled with the probability they state while the mean intervals change?
 * Two threads allocate by the same schedule of sizes; one of them moves the mean interval, and that of each size
 * class, up and down all the time.
 * For each size: the sum of 1/p over the sampled blocks against their number, as a z score, and the samples
 * against the sum of p over all blocks; |z| over 5 fails.  A long countdown must end when the mean falls. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "sampling/sampler.h"

enum { LEAST = 64 * 1024, MOST_CODE = 81, ROUNDS = 3000000 };

/* The classes of the first MOVING sizes move; the classes of the others stay at the least interval. */
static const size_t sizes[] = {1, 64, 4096, 65552, 524288, 2 << 20, 2, 128, 8192, 131104, 1 << 20, 4 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, MOVING = SIZES / 2 };

struct sums {
    double blocks[SIZES], weights[SIZES], weights_variance[SIZES], samples[SIZES], expected[SIZES], variance[SIZES];
    int mover, misstated, codes_seen[256];
};

static _Atomic uint8_t class_code[SAMPLER_CLASSES];

/* Does the thread know the code that a block is sampled under?  For a class that moves, only the mover knows the code:
 * the kernel may preempt the mover between the two stores of a move, and the other thread then uses a code that is not
 * yet in force. */
static bool known(const struct sums *sums, int which) { return sums->mover || which >= MOVING; }

static void *allocate(void *argument) {
    struct sums *sums = argument;
    unsigned random = sums->mover ? 1 : 2;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        int which = (int)(random >> 16) % SIZES;
        /* Random codes, and leaps between the ends. */
        if (sums->mover && random % 64 == 0) sampler_move((uint8_t)(1 + (random >> 8) % MOST_CODE));
        if (sums->mover && random % 5000 == 0) sampler_move(random & 8192 ? 1 : MOST_CODE);
        size_t size = sizes[which];
        unsigned its = sampler_class(size);
        if (sums->mover && which < MOVING && random % 48 == 0) {
            class_code[its] = (uint8_t)(1 + (random >> 9) % MOST_CODE);
            sampler_move_class(its, class_code[its]);
        }
        uint8_t code = self.code;
        if (code && (class_code[its] > code || size >= SAMPLER_LARGE)) code = class_code[its] ? class_code[its] : 1;
        sums->blocks[which]++;
        if (code) {
            double p = -expm1(-(double)size / (double)sampler_mean(LEAST, code));
            sums->expected[which] += p;
            sums->variance[which] += p * (1 - p);
        }
        if (sampler_passes(size) || sampler_passes_on(size) || !sampler_takes(size)) continue;
        double weight = sampler_weight(size);
        sums->samples[which]++;
        sums->weights[which] += weight;
        sums->weights_variance[which] += weight * (weight - 1);
        sums->codes_seen[sampler_code()]++;
        sums->misstated += known(sums, which) && code && sampler_code() != code;
    }
    return NULL;
}

static int check(const struct sums *sums) {
    int failed = 0, codes = 0;
    for (int i = 0; i < SIZES; i++) {
        double z = (sums->weights[i] - sums->blocks[i]) / sqrt(sums->weights_variance[i] + 1);
        double count = (sums->samples[i] - sums->expected[i]) / sqrt(sums->variance[i] + 1);
        printf("%8zu bytes: %.0f blocks, estimated %.0f, z %.2f; %.0f samples, expected %.1f, z %.2f\n", sizes[i],
               sums->blocks[i], sums->weights[i], z, sums->samples[i], sums->expected[i], count);
        /* Few blocks of the two smallest sizes are sampled, with weights too unequal for a normal distribution. */
        failed |= (i % MOVING > 1 && fabs(z) > 5) || (known(sums, i) && fabs(count) > 5);
    }
    for (int code = 0; code < 256; code++) codes += sums->codes_seen[code] > 0;
    printf("under %d codes\n", codes);
    /* The number of codes that the other thread meets depends on the scheduler. */
    return failed | (sums->mover && codes < MOST_CODE / 2) | (sums->codes_seen[0] != 0) | (sums->misstated != 0);
}

/* Allocates small blocks until the thread notices that the mean has fallen. */
static int notices(void) {
    sampler_start(512 * 1024, 1, 7);
    sampler_move(57); /* 64 MiB */
    sampler_join();
    sampler_move(1);
    size_t bytes = 0;
    while (self.code != 1 && bytes < 16 << 20) {
        if (!sampler_passes(1000)) sampler_takes(1000);
        bytes += 1000;
    }
    printf("noticed after %zu bytes\n", bytes);
    return bytes > SAMPLER_LARGE + 1000;
}

int main(void) {
    struct sums sums[2] = {{.mover = 1}, {.mover = 0}};
    pthread_t threads[2];
    sampler_start(LEAST, 1, 42);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, allocate, &sums[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    int failed = check(&sums[0]) | check(&sums[1]);
    sampler_stop();
    return failed | notices();
}
