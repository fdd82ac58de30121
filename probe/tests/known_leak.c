/* known_leak BLOCKS: leaks a known number of blocks of every size from 64 bytes to 300,000, for a test of
 * the intervals.  Each size has its own call path, as a library's function has (zlib's inflateInit2_); the same
 * paths churn.  Prints the truth: "blocks N bytes N", the blocks of each path. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile sink;

#define PATHS 4
static const size_t sizes[PATHS] = {64, 4099, 65552, 300000};

__attribute__((noinline)) void *leaking_site(int path);
__attribute__((noinline)) void *leaking_site(int path) {
    /* Four return addresses: the compiler must not merge the calls. */
    switch (path) {
    case 0: sink = malloc(sizes[0]); break;
    case 1: sink = calloc(1, sizes[1]); break;
    case 2: sink = realloc(NULL, sizes[2]); break;
    default: sink = aligned_alloc(16, sizes[3]); break;
    }
    return sink;
}

int main(int count, char **arguments) {
    long blocks = count > 1 ? atol(arguments[1]) : 1000;
    uint64_t bytes = 0;
    for (long i = 0; i < blocks; i++) {
        int path = (int)(i % PATHS);
        bytes += sizes[path];
        for (int j = 0; j < 6; j++) {
            void *block = leaking_site(path);
            if (j) free(block);
        }
    }
    printf("blocks %ld bytes %llu\n", blocks / PATHS, (unsigned long long)bytes);
    return 0;
}
