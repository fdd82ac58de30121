/* The functions of libm that the sampler and its budget need: the library must not depend on libm.  Polynomials are
 * summed in pairs, then pairs of pairs (Estrin's scheme): term by term, each addition waits for the one before. */
#ifndef OFFHEAP_ARITHMETIC_H
#define OFFHEAP_ARITHMETIC_H

#include <stdint.h>
#include <string.h>

/* Natural logarithm of a positive normal double; absolute error under 1e-9.
 * x = m 2^e with m in [1, 2), ln m = 2 atanh((m - 1) / (m + 1)) as a series. */
static inline double natural_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) { /* keep |z| under 0.172 */
        m *= 0.5;
        exponent++;
    }
    double z = (m - 1) / (m + 1), z2 = z * z, z4 = z2 * z2;
    double low = (1 + z2 * (1. / 3)) + z4 * (1. / 5 + z2 * (1. / 7));
    double high = (1. / 9 + z2 * (1. / 11)) + z4 * (1. / 13);
    return 2 * z * (low + z4 * z4 * high) + exponent * 0.69314718055994531;
}

/* Square root for x >= 0 up to 2^60, to some nine digits: Newton's method, from above. */
static inline double square_root(double x) {
    if (x <= 0) return 0; /* Newton's method halves towards 0 and does not reach it */
    double root = x > 1 ? x : 1;
    for (int round = 0; round < 64 && root * root > x * (1 + 1e-9); round++) root = (root + x / root) / 2;
    return root;
}

/* 1 - exp(-x) for x >= 0 without cancellation at small x; relative error under 1e-9.
 * Halve x until the Taylor series of expm1 is short, then double back:
 * expm1(2y) = expm1(y) (expm1(y) + 2). */
static inline double one_minus_exp(double x) {
    if (x > 45) return 1;
    int halvings = 0;
    while (x > 0.25) {
        x *= 0.5;
        halvings++;
    }
    double y = -x, y2 = y * y, y4 = y2 * y2;
    double low = (1 + y * (1. / 2)) + y2 * (1. / 6 + y * (1. / 24));
    double high = (1. / 120 + y * (1. / 720)) + y2 * (1. / 5040 + y * (1. / 40320));
    double series = y * (low + y4 * high);
    while (halvings-- > 0) series *= series + 2;
    return -series;
}

#endif
