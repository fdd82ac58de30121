/* Leaks a known number of blocks of mixed sizes under churn of the same site, for a test of the
 * intervals: known_leak BLOCKS.  Prints the truth: "blocks N bytes N". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile sink;

__attribute__((noinline)) void *leaking_site(size_t size);
__attribute__((noinline)) void *leaking_site(size_t size) {
    sink = malloc(size);
    return sink;
}

int main(int count, char **arguments) {
    /* Of one order of magnitude, as one call path's blocks are (zlib's): a path that also made
     * thousands of 16-byte blocks would keep their number to itself, whatever the estimator. */
    static const size_t sizes[] = {7160, 4099, 65552};
    long blocks = count > 1 ? atol(arguments[1]) : 1000;
    uint64_t bytes = 0;
    for (long i = 0; i < blocks; i++) {
        size_t size = sizes[i % 3];
        bytes += size;
        for (int j = 0; j < 6; j++) {
            void *block = leaking_site(size);
            if (j) free(block);
        }
    }
    printf("blocks %ld bytes %llu\n", blocks, (unsigned long long)bytes);
    return 0;
}
