/* Three threads take all the address space there is, in blocks of 5,000 bytes and 64 MiB more than the program has
 * now; prints how many blocks they got.  Each is refused a thousand times. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { THREADS = 3 };
static atomic_ulong held;
static pthread_barrier_t limited;
static void *volatile last; /* a malloc of which nothing is kept is none to a compiler */

static void *fill(void *unused) {
    pthread_barrier_wait(&limited);
    for (int refused = 0; refused < 1000;) {
        void *block = malloc(5000);
        last = block;
        if (block) held++;
        else refused++;
    }
    return unused;
}

int main(void) {
    unsigned long pages = 0;
    struct rlimit limit;
    pthread_t threads[THREADS];
    pthread_barrier_init(&limited, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, fill, NULL) != 0) return 1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1 || fclose(file) != 0) return 2;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * 4096 + (64 << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 3;
    pthread_barrier_wait(&limited);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("%lu\n", (unsigned long)held);
    return 0;
}
