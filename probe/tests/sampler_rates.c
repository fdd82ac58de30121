/* Are blocks sampled with probability 1 - exp(-s / T), for any size and order?  Prints z scores;
 * |z| over 5 (one in two million) fails.  Compares the weights with libm's, too. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>

#include "sampling/sampler.h"

enum { INTERVAL = 512 * 1024, ROUNDS = 3000000 };

int main(void) {
    static const size_t sizes[] = {1, 64, 4096, 65552, 524288, 2 << 20, 16 << 20};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    long blocks[SIZES] = {0}, sampled[SIZES] = {0};
    sampler_start(INTERVAL, 1, 42);
    unsigned random = 1;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        int which = (int)(random >> 16) % SIZES;
        blocks[which]++;
        if (!sampler_passes(sizes[which]) && !sampler_passes_on(sizes[which]))
            sampled[which] += sampler_takes(sizes[which]);
    }
    int failed = 0;
    for (int i = 0; i < SIZES; i++) {
        double p = -expm1(-(double)sizes[i] / INTERVAL), expected = p * (double)blocks[i];
        double z = ((double)sampled[i] - expected) / sqrt(expected * (1 - p) + 1e-9);
        if (expected * (1 - p) < 1e-3) z = (double)sampled[i] - expected;
        double error = sampler_weight(sizes[i]) * p - 1;
        printf("%9zu bytes: %ld of %ld, expected %.1f, z %.2f, weight error %.1e\n", sizes[i], sampled[i], blocks[i],
               expected, z, error);
        failed |= fabs(z) > 5 || fabs(error) > 1e-8;
    }
    sampler_stop();
    for (int i = 0; i < 100; i++) failed |= sampler_takes(1 << 30);
    sampler_start(0, 0, 0);
    /* An old countdown could pass one block: the exact hooks do not call sampler_passes. */
    failed |= !sampler_takes(1);
    for (int i = 0; i < 1000; i++) failed |= sampler_passes(0) || sampler_passes_on(0) || !sampler_takes(0);
    return failed;
}
