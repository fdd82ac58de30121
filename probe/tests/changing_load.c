/* changing_load PHASES: leaks a known number of blocks under a load that changes tenfold every 0.12 s, for a test of
 * the budget.  Prints the truth: "blocks N bytes N". */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LIGHT = 60, THREADS = 2 };

static long phases;
static uint64_t blocks, bytes;

__attribute__((noinline)) void *leaking_site(size_t size);
__attribute__((noinline)) void *leaking_site(size_t size) {
    void *volatile block = malloc(size);
    return block;
}

static void *load(void *unused) {
    static const size_t sizes[] = {7160, 4099, 65552};
    for (long phase = 0; phase < phases; phase++) {
        for (long i = 0; i < (phase % 2 ? 10 : 1) * LIGHT; i++) {
            size_t size = sizes[i % 3];
            __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(&bytes, size, __ATOMIC_RELAXED);
            for (int j = 0; j < 12; j++) {
                void *block = leaking_site(size);
                if (j) free(block);
            }
        }
        usleep(120000); /* longer than the time between two adjustments of the budget */
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    phases = count > 1 ? atol(arguments[1]) : 8;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, load, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("blocks %llu bytes %llu\n", (unsigned long long)blocks, (unsigned long long)bytes);
    return 0;
}
