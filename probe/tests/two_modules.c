/* One module allocates blocks and another frees them, 5,000 live at any time, while a recording starts and stops.
 * Arguments: liboffheap, options, the module that frees, the modules in the order to load. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIVE = 5000, SIZE = 4099 };
static void *(*give)(size_t);
static void (*take)(void *);
static atomic_bool over;
static atomic_long turns; /* how often each block has been replaced */

static void *churn(void *unused) {
    static void *ring[ALIVE];
    for (size_t i = 0; !atomic_load(&over); i = (i + 1) % ALIVE) {
        take(ring[i]);
        ring[i] = give(SIZE);
        if (i == 0) atomic_fetch_add(&turns, 1);
    }
    return unused;
}

int main(int count, char **arguments) {
    for (int i = 3; i < count; i++) {
        void *module = dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL);
        if (!module) return 2;
        void *found = dlsym(module, "give");
        if (found) give = (void *(*)(size_t))found;
        found = dlsym(module, "take");
        if (found) take = (void (*)(void *))found;
    }
    void *probe = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!probe || !give || !take) return 3;
    int (*start)(const char *) = (int (*)(const char *))dlsym(probe, "offheap_start");
    int (*stop)(void) = (int (*)(void))dlsym(probe, "offheap_stop");
    pthread_t thread;
    if (pthread_create(&thread, NULL, churn, NULL)) return 4;
    while (atomic_load(&turns) < 3) usleep(1000);
    if (start(arguments[2])) return 5;
    for (long end = atomic_load(&turns) + 3; atomic_load(&turns) < end;) usleep(1000);
    if (stop()) return 6;
    atomic_store(&over, 1);
    return pthread_join(thread, NULL);
}
