/* The two functions of the sampler that libm would have: it must not become a dependency. */
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
    double z = (m - 1) / (m + 1), z2 = z * z, sum = 0;
    for (int k = 13; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
    return 2 * z * sum + exponent * 0.69314718055994531;
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
    double series = 0;
    for (int k = 9; k >= 1; k--) series = (1 + series) * -x / k;
    while (halvings-- > 0) series *= series + 2;
    return -series;
}

#endif
